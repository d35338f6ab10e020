#!/usr/bin/env bash
# Provides .tools/upstreams: the frameworks in front of which e2e/upstreams_test.go runs, Python's in
# the versions of upstreams.txt.
. "$(dirname "$0")/lib.sh"

# shellcheck disable=SC2034
alternative="put a python3 with pip, and node with npm, on PATH"
want=$(cat "$root/tools/upstreams.txt" "$0" | sha256sum | cut -d ' ' -f 1)
if [[ $(cat "$tools/upstreams/stamp" 2>/dev/null || true) != "$want" ]]; then
	python3 -m pip --version >/dev/null 2>&1 || packages python3-pip
	npm --version >/dev/null 2>&1 || packages nodejs npm
	stage
	say "installing Flask, Django, FastAPI and Express"
	python3 -m pip install --quiet --disable-pip-version-check --no-deps --only-binary :all: \
		--target "$staging/upstreams/python" --requirement "$root/tools/upstreams.txt"
	npm install --silent --no-audit --no-fund --ignore-scripts --prefix "$staging/upstreams" \
		express@5.3.0 cookie-parser@1.4.7 passport-jwt@4.0.1
	echo "$want" >"$staging/upstreams/stamp"
	publish "$staging/upstreams" "$tools/upstreams"
fi
