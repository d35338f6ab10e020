#!/usr/bin/env bash
# Runs every fuzz target of the module for FUZZTIME (30s) each.
set -euo pipefail
cd "$(dirname "$0")/.."

count=0
for dir in $(go list -f '{{.Dir}}' ./...); do
	for target in $(find "$dir" -maxdepth 1 -name '*_test.go' -exec sed -n 's/^func \(Fuzz[A-Za-z0-9_]*\)(.*/\1/p' {} +); do
		printf '== %s %s\n' "${dir#"$PWD"/}" "$target"
		go test -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" "$dir"
		count=$((count + 1))
	done
done
if ((count == 0)); then
	echo 'no fuzz target found' >&2
	exit 1
fi
