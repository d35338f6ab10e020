#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME (30s) each.
set -euo pipefail
cd "$(dirname "$0")/.."

count=0
for dir in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do
	for target in $(sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' "$dir"/*_test.go); do
		printf '== %s %s\n' "$dir" "$target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" "$dir"
		count=$((count + 1))
	done
done
((count)) || { echo 'no fuzz target found' >&2 && exit 1; }
