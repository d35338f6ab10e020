#!/usr/bin/env bash
# Installs under .tools what the system lacks of what is asked for:
#   tools/setup.sh cc tinygo envoy redis     what "make run" needs
#   tools/setup.sh                           that, and what the tests need
# Safe to repeat and to interrupt; a second run takes under a second.
# PATH=.tools/bin:$PATH finds all of it.
set -euo pipefail

steps=("$@")
[[ $# -gt 0 ]] || steps=(cc tinygo envoy redis lua wasm-opt prometheus chromium sdk)

[[ -d $(dirname "$0")/../.tools/tinygo ]] ||
	echo 'tools: the first set-up takes two to five minutes; what it installs stays in .tools/' >&2

# Of what cannot be installed, all is named at once.
failed=0
for step in "${steps[@]}"; do
	"$(dirname "$0")/$step.sh" || failed=1
done
((SECONDS < 3 || failed)) || echo "tools: $* set up in $SECONDS s" >&2
exit "$failed"
