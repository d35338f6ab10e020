#!/usr/bin/env bash
# Sees to the compiler with which Go links C: for TinyGo, which holds LLVM, and
# for "go test -race".
. "$(dirname "$0")/lib.sh"

alternative="put gcc and g++ on PATH, or set CC and CXX"
command -v "${CC:-gcc}" >/dev/null && command -v "${CXX:-g++}" >/dev/null || packages g++
