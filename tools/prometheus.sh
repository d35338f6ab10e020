#!/usr/bin/env bash
# Provides .tools/bin/prometheus and promtool: the ones on PATH, else those of
# Debian's package. That is unpacked, not installed: it would add a service
# that takes port 9090 at once, and its programs need nothing but libc.
. "$(dirname "$0")/lib.sh"

alternative="put prometheus and promtool on PATH (https://prometheus.io/download)"
home=$tools/prometheus

installed() { [[ -x $home/prometheus && -x $home/promtool ]]; }

download() { (cd "$staging" && apt-get -qq download prometheus 9>&-) >"$tools/apt.log" 2>&1; }

unpack() {
	command -v apt-get >/dev/null || die "this system has no apt-get and no prometheus; $alternative"
	say "fetching prometheus from Debian (100 MB unpacked)"
	download || { apt-get -qq update 9>&- >"$tools/apt.log" 2>&1 && download; } || {
		tail -n 20 "$tools/apt.log" >&2
		die "apt-get could not download prometheus (all of it in $tools/apt.log); $alternative"
	}
	dpkg-deb -x "$staging"/prometheus_*.deb "$staging/unpacked"
	mkdir "$staging/prometheus"
	mv "$staging"/unpacked/usr/bin/{prometheus,promtool} "$staging/prometheus"
	"$staging/prometheus/promtool" --version >/dev/null 2>&1 || die "Debian's prometheus does not run here; $alternative"
	publish "$staging/prometheus" "$home"
}

server=$(command -v prometheus || true)
tool=$(command -v promtool || true)
if [[ -z $server || -z $tool ]]; then
	if ! installed; then
		stage
		installed || unpack
	fi
	server=$home/prometheus tool=$home/promtool
fi
link "$server" bin/prometheus
link "$tool" bin/promtool
