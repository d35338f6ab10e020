#!/usr/bin/env bash
# Installs under .tools what building and testing need and the system lacks:
# a C++ compiler, TinyGo, Envoy, Redis. Safe to repeat and to interrupt; a second run takes
# under a second. PATH=.tools/bin:$PATH finds all of it.
set -euo pipefail

dir=$(dirname "$0")
"$dir/cc.sh"
"$dir/tinygo.sh"
"$dir/envoy.sh"
"$dir/redis.sh"
