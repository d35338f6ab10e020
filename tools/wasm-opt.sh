#!/usr/bin/env bash
# Provides .tools/bin/wasm-opt, with which tests look into the built plugin: the one on PATH, else
# Debian's.
. "$(dirname "$0")/lib.sh"

alternative="put wasm-opt of Binaryen on PATH"
command -v wasm-opt >/dev/null || packages binaryen
link "$(command -v wasm-opt)" bin/wasm-opt
"$tools/bin/wasm-opt" --version >/dev/null || die "$tools/bin/wasm-opt does not run; $alternative"
