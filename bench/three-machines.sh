#!/usr/bin/env bash
# Measures Envoy without a limiter, with Sluice, and with Envoy's ratelimit filter and its service, on
# three machines: the load, Envoy, and Redis with the service and the upstream.
set -euo pipefail

usage() {
	cat <<'TEXT'
usage: bench/three-machines.sh LOAD LIMITER STORE

Each is a machine that ssh reaches without a password, by the address that the others know it by.
LOAD has h2load. All run Linux, and LIMITER and STORE have this machine's architecture. Ports 25000
to 25102 must be open between them. "make bench-tools build" here comes first.

SETUPS, ROUNDS, LENGTH, CONNECTIONS    "none sluice ratelimit", 7, 4, 64
SSH                                    a command in place of ssh; it takes a machine and a command
TEXT
	exit "$1"
}
[[ ${1:-} != --help ]] || usage 0
[[ $# == 3 ]] || usage 2
load=$1 limiter=$2 store=$3
setups=${SETUPS:-none sluice ratelimit} rounds=${ROUNDS:-7} length=${LENGTH:-4} connections=${CONNECTIONS:-64}
ssh=${SSH:-ssh}
root=$(cd "$(dirname "$0")/.." && pwd)
files=$(mktemp -d)
trap 'rm -rf "$files"; for host in "$limiter" "$store"; do $ssh "$host" "cd sluice-bench && kill \$(cat *.pid) 2>/dev/null; true"; done' EXIT

cd "$root/bench"
go run . -three "$files" -store "$store"
cp -L "$root/.tools/bin/envoy" "$root/.tools/bin/redis-server" "$root/build/sluice.wasm" "$files"
for host in "$limiter" "$store"; do
	tar -C "$files" -c . | $ssh "$host" "rm -rf sluice-bench && mkdir sluice-bench && tar -C sluice-bench -x"
done

# begin HOST NAME COMMAND starts a process there, end HOST NAME ends it; ticks HOST NAME is its CPU time.
begin() { $ssh "$1" "cd sluice-bench && { setsid $3 >$2.log 2>&1 </dev/null & echo \$! >$2.pid; }"; }
end() { $ssh "$1" "cd sluice-bench && pid=\$(cat $2.pid) && rm $2.pid && kill \$pid && while kill -0 \$pid 2>/dev/null; do sleep 0.1; done"; }
ticks() { $ssh "$1" "cd sluice-bench && [ -f $2.pid ] && awk '{print \$14 + \$15}' /proc/\$(cat $2.pid)/stat || echo 0"; }
await() {
	for _ in $(seq 100); do
		! $ssh "$1" "$2" >/dev/null 2>&1 || return 0
		sleep 0.2
	done
	echo "$1: not ready after a long time: $2" >&2
	return 1
}
send() { $ssh "$load" "h2load --h1 -t 1 -c $connections -D $1 -H 'x-api-key: bench' http://$limiter:25000/"; }

begin "$store" redis "./redis-server --port 25003 --bind 0.0.0.0 --protected-mode no --save '' --appendonly no"
begin "$store" upstream "./envoy -c upstream.yaml --concurrency 4 --disable-hot-restart"
echo "| setup | round | requests/s | CPU µs a request: Envoy | service | Redis |"
echo "|---|---:|---:|---:|---:|---:|"
for round in $(seq "$rounds"); do
	for setup in $setups; do
		[[ $setup != ratelimit ]] || begin "$store" service "env \$(cat service.env) ./ratelimit"
		begin "$limiter" envoy "./envoy -c $setup.yaml --concurrency 1 --disable-hot-restart"
		await "$limiter" "curl -fs http://127.0.0.1:25001/ready"
		await "$load" "curl -fs -H 'x-api-key: bench' http://$limiter:25000/"
		send 2 >/dev/null
		before=($(ticks "$limiter" envoy) $(ticks "$store" service) $(ticks "$store" redis))
		answers=$(send "$length" | sed -n 's/^status codes: \([0-9]*\) 2xx.*/\1/p')
		after=($(ticks "$limiter" envoy) $(ticks "$store" service) $(ticks "$store" redis))
		awk -v setup="$setup" -v round="$round" -v n="$answers" -v s="$length" -v hz="$(getconf CLK_TCK)" \
			-v envoy=$((after[0] - before[0])) -v service=$((after[1] - before[1])) -v redis=$((after[2] - before[2])) \
			'BEGIN {us = 1e6 / hz / n; printf "| %s | %d | %d | %.1f | %.1f | %.1f |\n", setup, round, n / s, envoy * us, service * us, redis * us}'
		end "$limiter" envoy
		[[ $setup != ratelimit ]] || end "$store" service
	done
done
