# Shared by the set-up scripts, which source it: where things go, messages,
# Debian packages, installs that are whole or absent.
# shellcheck shell=bash
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$root/.tools
mkdir -p "$tools/bin"

# What the user has installed is looked for without our own links in the way, by whatever path they
# are on PATH: a wrapper that found itself would start itself for ever.
others=
while IFS= read -rd: dir; do
	[[ $dir -ef $tools/bin ]] || others+=${others:+:}$dir
done <<<"$PATH:"
PATH=$others

staging= # a scratch directory of this run, on the same file system as .tools
cleanup() { [[ -z $staging ]] || rm -rf "$staging"; }
trap cleanup EXIT

say() { printf 'tools: %s\n' "$*" >&2; }

die() {
	printf 'tools: %s\n' "$@" >&2
	exit 1
}

# stage makes $staging and takes the lock that keeps two set-ups from doing
# the same work at once. Call it before the slow part, then look again.
stage() {
	[[ -z $staging ]] || return 0
	exec 9>"$tools/lock"
	flock 9
	rm -rf "$tools"/staging.* # of set-ups that were killed
	staging=$(mktemp -d "$tools/staging.XXXXXX")
}

# publish DIR DEST moves a finished directory into place in one step: where
# DEST exists it is complete.
publish() {
	mkdir -p "$(dirname "$2")"
	rm -rf "$2"
	mv -T "$1" "$2"
}

# link TARGET NAME makes .tools/NAME point at TARGET, in one step.
link() {
	[[ $(readlink "$tools/$2" || true) != "$1" ]] || return 0
	ln -sfn "$1" "$tools/$2.$$"
	mv -T "$tools/$2.$$" "$tools/$2"
}

# packages NAME... installs the Debian packages that are missing, or says
# which they are where that cannot be done.
packages() {
	local missing=() name
	for name in "$@"; do
		dpkg-query -W -f '${Status}\n' "$name" 2>/dev/null |
			grep -q ' installed$' || missing+=("$name")
	done
	((${#missing[@]})) || return 0
	command -v apt-get >/dev/null ||
		die "this system has no apt-get; Debian's names for what is missing are:" \
			"    ${missing[*]}" "install what matches them here, or ${alternative:?}"
	((EUID == 0)) ||
		die "packages are missing and this user may not install them; as root:" \
			"    apt-get install -y --no-install-recommends ${missing[*]}" "or ${alternative:?}"
	say "installing Debian packages: ${missing[*]}"
	local log=$tools/apt.log
	{ # without the lock's descriptor, which a service that apt starts would keep
		apt-get -qq update &&
			DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 \
				install -y --no-install-recommends "${missing[@]}"
	} </dev/null >"$log" 2>&1 9>&- || {
		tail -n 20 "$log" >&2
		die "apt-get could not install ${missing[*]} (all of it in $log)"
	}
}

# at_least WANT HAVE compares versions.
at_least() { [[ $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]]; }
