#!/usr/bin/env bash
# Provides .tools/bin/redis-server and redis-cli: the ones on PATH, else
# Debian's.
. "$(dirname "$0")/lib.sh"

alternative="put redis-server and redis-cli on PATH"
server=$(command -v redis-server || true)
if [[ -z $server ]] || ! command -v redis-cli >/dev/null; then
	# Debian's redis-tools holds the server's program as redis-check-rdb, which acts by the
	# name it is started with. The package redis-server would add a service that
	# takes port 6379 at once.
	packages redis-tools
	: "${server:=$(command -v redis-check-rdb)}"
fi
link "$server" bin/redis-server
link "$(command -v redis-cli)" bin/redis-cli
"$tools/bin/redis-server" --version | grep -qi 'server v=' || die "$server is not a Redis server; $alternative"
