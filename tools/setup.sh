#!/usr/bin/env bash
# Installs under .tools what building and testing need and the system lacks:
# a C++ compiler, TinyGo, Envoy, Redis, Lua 5.4, Prometheus, Chromium, SDKs. Safe to repeat
# and to interrupt; a second run takes under a second. PATH=.tools/bin:$PATH finds all
# of it.
set -euo pipefail

# Of what cannot be installed, all is named at once.
failed=0
for step in cc tinygo envoy redis lua prometheus chromium sdk; do
	"$(dirname "$0")/$step.sh" || failed=1
done
exit "$failed"
