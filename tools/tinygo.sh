#!/usr/bin/env bash
# Provides .tools/bin/tinygo and .tools/proxywasm.json, the target to build
# the plugin for. A tinygo on PATH is used when it is 0.41 or newer and builds
# the probe; else TinyGo is built from its module with Debian's LLVM 19. Either gets the collector of
# tools/tinygo/collector.patch in its runtime (docs/decisions/0029-collector.md).
. "$(dirname "$0")/lib.sh"

version=0.41.1
llvm=/usr/lib/llvm-19
patch=$root/tools/tinygo/collector.patch
home=$tools/tinygo/$version-$(sha256sum <"$patch" | cut -c1-8)
alternative="put a release of TinyGo 0.41 or newer on PATH (https://tinygo.org)"

# builds TINYGO TARGET: does it turn the probe into a plugin?
builds() {
	(cd "$root/tools/tinygo/probe" &&
		"$1" build -target="$2" -buildmode=c-shared -gc=leaking -tags 'custommalloc safepoints' -opt=2 -no-debug \
			-o "$staging/probe.wasm" .) >"$staging/probe.log" 2>&1
}

# wrapper TINYGO [LINE]: a script that runs it. A link would not do: a release
# finds its own files by the path it was started with.
wrapper() {
	printf '#!/bin/sh\n%sexec "%s" "$@"\n' "${2-}" "$1" >"$staging/tinygo"
	chmod +x "$staging/tinygo"
	mv "$staging/tinygo" "$tools/bin/tinygo"
}

# patched ROOT: puts the collector into the runtime under a TINYGOROOT.
patched() { (cd "$1" && GIT_CEILING_DIRECTORIES=$(dirname "$1") git apply -p1 "$patch"); }

# choose STAMP TARGET puts TARGET in force; the stamp comes last.
choose() {
	link "$root/tools/$2" proxywasm.json
	printf '%s\n' "$1" >"$staging/stamp"
	mv "$staging/stamp" "$tools/tinygo.stamp"
}

use_system() {
	local target from to=$tools/tinygo/system
	at_least 0.41 "$(awk '{print $3}' <<<"$system_version")" || return 1
	# Its files are its own: beside links to them stands a copy of those that change.
	from=$("$system" env TINYGOROOT)
	mkdir -p "$staging/root/src"
	find "$from" -mindepth 1 -maxdepth 1 ! -name src -exec ln -s -t "$staging/root" {} +
	find "$from/src" -mindepth 1 -maxdepth 1 ! -name runtime -exec ln -s -t "$staging/root/src" {} +
	cp -r "$from/src/runtime" "$staging/root/src/"
	chmod -R u+w "$staging/root/src/runtime"
	patched "$staging/root" || return 1
	publish "$staging/root" "$to"
	for target in proxywasm.json proxywasm-release.json; do
		TINYGOROOT=$to builds "$system" "$root/tools/$target" || continue
		say "using $system ($system_version)"
		wrapper "$system" "export TINYGOROOT=\"$to\"
"
		choose "$stamp" "$target"
		return
	done
	say "$system ($system_version) does not build a plugin; building TinyGo $version instead"
	return 1
}

build_own() {
	local dir=$root/tools/tinygo module out=$staging/home
	say "building TinyGo $version (about a minute)"
	mkdir -p "$out/bin" "$out/root"
	(cd "$dir" && CGO_ENABLED=1 go build -tags llvm19 -o "$out/bin/tinygo" github.com/tinygo-org/tinygo)
	module=$(cd "$dir" && go list -m -f '{{.Dir}}' github.com/tinygo-org/tinygo)
	cp -r "$module/src" "$module/targets" "$out/root/"
	chmod -R u+w "$out/root"
	mkdir -p "$out/root/src/net" # a submodule, not in the module's zip; only has to exist
	patched "$out/root"
	publish "$out" "$home"
}

use_own() {
	packages llvm-19-dev libclang-19-dev lld-19 clang-19 wasi-libc libclang-rt-19-dev-wasm32 binaryen
	[[ -x $home/bin/tinygo ]] || build_own
	wrapper "$home/bin/tinygo" "export TINYGOROOT=\"$home/root\" PATH=\"$llvm/bin:\$PATH\"
"
	builds "$tools/bin/tinygo" "$root/tools/proxywasm.json" || {
		cat "$staging/probe.log" >&2
		die "TinyGo $version was built but does not build a plugin"
	}
	choose "$stamp" proxywasm.json
}

system=$(command -v tinygo || true)
system_version=
[[ -z $system ]] || system_version=$("$system" version)
# The stamp names all that the outcome depends on.
stamp="$root | $(go env GOVERSION) | $system | $system_version | $(cat "$0" "$root"/tools/proxywasm*.json "$patch" | sha256sum)"
ready() {
	[[ -x $tools/bin/tinygo && $(cat "$tools/tinygo.stamp" 2>/dev/null) == "$stamp" ]] &&
		"$tools/bin/tinygo" version >/dev/null 2>&1
}

ready && exit
stage
ready && exit
[[ -n $system ]] && use_system || use_own
