#!/usr/bin/env bash
# Provides valgrind, which counts the instructions of "make count": the one on PATH, else Debian's. It
# finds its parts by its own path, so it is not linked to .tools.
. "$(dirname "$0")/lib.sh"

alternative="put valgrind and its vgdb on PATH (https://valgrind.org/downloads/)"
command -v valgrind >/dev/null && command -v vgdb >/dev/null || packages valgrind
