#!/usr/bin/env bash
# Provides Redis 8 and Valkey 8 in addition to the system's Redis: the scripts
# redis-server and redis-cli in .tools/redis-8 and .tools/valkey-8. They are
# Debian trixie's packages, unpacked and run with trixie's own libraries, so
# nothing of the system changes. The archive is the one this Debian uses.
. "$(dirname "$0")/lib.sh"

libraries=(libc6 libssl3t64 libsystemd0 libjemalloc2 liblzf1 libatomic1 libstdc++6 libgcc-s1 libcap2 libzstd1 zlib1g)
alternative="run the tests with REDIS_SERVER and REDIS_CLI naming the server to test"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg

# trixie_apt ARGS... is apt-get with trixie as its only source and everything
# it writes in the scratch directory.
trixie_apt() {
	APT_CONFIG=$staging/apt.conf apt-get -qq "$@" >>"$tools/apt.log" 2>&1 || {
		tail -n 20 "$tools/apt.log" >&2
		die "apt-get $1 failed (all of it in $tools/apt.log)"
	}
}

prepare_apt() {
	local uri
	command -v apt-get >/dev/null && [[ -f $keyring ]] || die "this needs Debian's apt-get and archive keyring; or $alternative"
	[[ -n $(apt-get indextargets) ]] || apt-get -qq update
	uri=$(apt-get indextargets --format '$(REPO_URI)' 'Label: Debian' 'Component: main' 'Created-By: Packages' | head -n 1)
	[[ -n $uri ]] || die "none of this system's package sources is Debian's archive; or $alternative"
	mkdir -p "$staging"/apt/{lists/partial,cache/archives/partial,etc}
	: >"$staging/apt/status"
	echo "deb [signed-by=$keyring] $uri trixie main" >"$staging/apt/etc/sources.list"
	cat >"$staging/apt.conf" <<-CONF
		Dir::State "$staging/apt";
		Dir::State::status "$staging/apt/status";
		Dir::Cache "$staging/apt/cache";
		Dir::Etc "$staging/apt/etc";
		APT::Sandbox::User "root";
	CONF
	: >"$tools/apt.log"
	trixie_apt update
}

# unpack NAME PACKAGE...: downloads the packages and unpacks them, the shared
# libraries with them, into NAME/root of the scratch directory.
unpack() {
	local name=$1 deb
	shift
	mkdir -p "$staging/$name/root"
	(cd "$staging/$name" && trixie_apt download "$@" "${libraries[@]}")
	for deb in "$staging/$name"/*.deb; do
		dpkg-deb -x "$deb" "$staging/$name/root"
		rm "$deb"
	done
}

# wrap DIR NAME PROGRAM writes the script DIR/NAME. The server must be the
# process that the script was, or signals would miss it.
wrap() {
	cat >"$1/$2" <<-'SCRIPT'
		#!/bin/sh
		root=$(dirname "$(readlink -f "$0")")/root
		lib=$(echo "$root"/usr/lib/*-linux-gnu*)
	SCRIPT
	printf 'exec "$lib"/ld-linux-*.so.* --library-path "$lib" "$root/usr/bin/%s" "$@"\n' "$3" >>"$1/$2"
	chmod +x "$1/$2"
}

# provide NAME FAMILY: FAMILY is redis or valkey, as Debian names packages and
# programs.
provide() {
	local dir=$staging/$1
	say "fetching $1 from Debian trixie"
	unpack "$1" "$2-server" "$2-tools"
	wrap "$dir" redis-server "$2-server"
	wrap "$dir" redis-cli "$2-cli"
	"$dir/redis-server" --version | grep -q 'v=8\.' || die "$1 does not start, or is not version 8"
	"$dir/redis-cli" --version >/dev/null || die "redis-cli of $1 does not start"
	publish "$dir" "$tools/$1"
}

installed() { [[ -x $tools/redis-8/redis-server && -x $tools/valkey-8/redis-server ]]; }

installed && exit
stage
installed && exit
prepare_apt
provide redis-8 redis
provide valkey-8 valkey
