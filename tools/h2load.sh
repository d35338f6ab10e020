#!/usr/bin/env bash
# Provides .tools/bin/h2load, which makes the load of "make bench": the one on
# PATH, else Debian's.
. "$(dirname "$0")/lib.sh"

alternative="put h2load on PATH (https://nghttp2.org/documentation/h2load.1.html)"
command -v h2load >/dev/null || packages nghttp2-client
link "$(command -v h2load)" bin/h2load
"$tools/bin/h2load" --help | grep -e --duration >/dev/null || die "$(command -v h2load) has no --duration; $alternative"
