#!/usr/bin/env bash
# Provides .tools/bin/sdk-python: python3 with the official packages openai and
# anthropic, by which deploy/envoy/ai.yaml is tested, in the versions of sdk.txt.
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2034
alternative="put a python3 with pip on PATH"
want=$(sha256sum "$root/tools/sdk.txt" | cut -d ' ' -f 1)
if [[ $(cat "$tools/sdk/stamp" 2>/dev/null || true) != "$want" ]]; then
	python3 -m pip --version >/dev/null 2>&1 || packages python3-pip
	stage
	say "installing the packages openai and anthropic"
	python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
		--target "$staging/sdk" --requirement "$root/tools/sdk.txt"
	echo "$want" >"$staging/sdk/stamp"
	publish "$staging/sdk" "$tools/sdk"
fi
if [[ ! -x $tools/bin/sdk-python ]]; then
	printf '#!/bin/sh\nPYTHONPATH=%s exec python3 "$@"\n' "$tools/sdk" >"$tools/bin/sdk-python.$$"
	chmod +x "$tools/bin/sdk-python.$$"
	mv -T "$tools/bin/sdk-python.$$" "$tools/bin/sdk-python"
fi
