#!/usr/bin/env bash
# Breaks the plugin in one way after the other, and wants "make simulate" to notice each within
# STEPS (100000) steps from the seed SEED (1) on. Nothing in the work tree is touched. A mutant
# whose text is not in its file any more is a mistake of this list, which -n alone looks for. Names as
# arguments: only these.
set -euo pipefail
cd "$(dirname "$0")/.."

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
failed=0
texts=
if [[ ${1-} == -n ]]; then texts=1 && shift; fi
wanted=("$@")

# mutant name file old new: the old text, which the file has once, becomes the new one.
mutant() {
	local name=$1 file=$2 old=$3 new=$4 text rest cpu
	if ((${#wanted[@]})) && [[ " ${wanted[*]} " != *" $name "* ]]; then return; fi
	text=$(cat "$file" || true) # one that is gone has no such text
	rest=${text//"$old"/}
	if ((${#text} - ${#rest} != ${#old})); then
		echo "$name: $file does not have this once: $old"
		failed=1
		return
	fi
	if [[ -n $texts ]]; then return; fi
	printf '%s\n' "${text/"$old"/"$new"}" >"$dir/$name.go"
	printf '{"Replace": {"%s": "%s"}}' "$PWD/$file" "$dir/$name.go" >"$dir/$name.json"
	if ! go test -overlay "$dir/$name.json" -c -o "$dir/test" ./plugin >"$dir/log" 2>&1; then
		echo "$name: does not compile: $(head -3 "$dir/log")"
		failed=1
		return
	fi
	if cpu=$({ time simulate >"$dir/log" 2>&1; } 2>&1); then
		echo "$name: NOT NOTICED"
		failed=1
		return
	fi
	printf '%-28s %5.1f CPU s  %s\n' "$name" "$cpu" "$(grep -m1 -oE 'seed [0-9]+: .*' "$dir/log" | cut -c1-150)"
}

TIMEFORMAT=%U # a machine that is busy makes no mutant slower
simulate() {
	(cd plugin && SIMULATE_SEED=${SEED:-1} SIMULATE_STEPS=${STEPS:-100000} "$dir/test" -test.run 'TestSimulate$')
}

mutant forgotten-wake plugin/decide/worker.go \
	'if w.questions.ready.first != nil || w.crowd' 'if w.crowd'
mutant forgotten-turn plugin/decide/worker.go \
	'Sooner(w.queue.nextMicros(nowMicros), w.stores' 'Sooner(0, w.stores'
mutant dropped-refund plugin/decide/check.go \
	's.remote.conn.Refund(s.remote.charge(r), now.SteadyMicros)' '_ = r'
mutant double-refund plugin/decide/check.go \
	'		s.remote.conn.Refund(s.remote.charge(r), now.SteadyMicros)
' '		s.remote.conn.Refund(s.remote.charge(r), now.SteadyMicros)
		s.remote.conn.Refund(s.remote.charge(r), now.SteadyMicros)
'
mutant late-reply-twice plugin/decide/request.go \
	'				s.GiveBack(&c.charged.late, now)' '				twice := c.charged.late
				s.GiveBack(&twice, now)
				s.GiveBack(&c.charged.late, now)'
mutant late-refund-dropped plugin/decide/request.go \
	'				s.GiveBack(&c.charged.late, now)' '				_ = now'
mutant gone-not-concluded plugin/decide/request.go \
	'q.waiting == 0 {' 'q.waiting == 0 && q.state != Gone {'
mutant units-kept-at-close plugin/decide/features.go \
	'{ s.leases.book.Close(now.SteadyMicros) }' '{ _ = now }'
mutant late-units-kept plugin/decide/lease.go \
	'			s.remote.conn.Refund(b.charge, nowMicros)' '			_ = nowMicros'
mutant closing-forgotten plugin/decide/worker.go \
	'w.closing.untilMicros = now.SteadyMicros + maxClosingMicros' '_ = now'
mutant slots-not-released plugin/decide/check.go \
	's.slots.vacate(r)' '_ = r'
mutant resumed-twice plugin/limiter.go \
	'{ l.host.resumeRequest(contextID) }' '{ l.host.resumeRequest(contextID); l.host.resumeRequest(contextID) }'
mutant fails-open plugin/decide/verdict.go \
	'Event: Refused, Outcome: answer.FailedDeny}' 'Event: Admitted, Outcome: answer.Allowed}'
mutant timer-one-tick-late plugin/redis/timeout.go \
	'k.keptMicros >= l.options.TimeoutMicros {' 'k.keptMicros >= l.options.TimeoutMicros+l.pipe.listening.periodMicros {'
mutant kept-back-for-long plugin/decide/crowd.go \
	'f.first.kept.atMicros >= c.timeoutMicros' 's.first.kept.atMicros >= 2*c.timeoutMicros'
mutant kept-back-and-forgotten plugin/redis/conn.go \
	', keptMicros: r.keptMicros,' ','
mutant dropped-settlement plugin/redis/conn.go \
	'if o.settling >= o.maxPending {' 'if o.settling >= 3 {'
mutant refund-lost-by-noscript plugin/redis/outcome.go \
	'accepted: ignore, refused: freeLater, unknown: sendAgain, timeless: sendAgain,
			timedOut: ignore, lost: free, givenUp: ignore,
		}},
		settling' 'accepted: ignore, refused: freeLater, unknown: ignore, timeless: sendAgain,
			timedOut: ignore, lost: free, givenUp: ignore,
		}},
		settling'
mutant check-lost-by-noscript plugin/redis/outcome.go \
	'accepted: decide, refused: fail, unknown: askAgain,' 'accepted: decide, refused: fail, unknown: ignore,'
mutant password-in-the-log plugin/redis/health.go \
	'[...]string{h.options.Username, h.options.Password}' '[...]string{"", ""}'
mutant batch-back-twice plugin/decide/lease.go \
	'			s.remote.conn.Refund(b.charge, nowMicros)' '			s.remote.conn.Refund(b.charge, nowMicros)
			s.remote.conn.Refund(b.charge, nowMicros)'
mutant smaller-cost-remembered algo/algorithm.go \
	'	case cost > l.Room():
		return Never, true
	case cost < of:' '	case retryAfterMicros == Never || cost > l.Room():
		return Never, true
	case cost < of:'
mutant wait-of-a-longer-lease algo/reply.go \
	'most += 4 * l.WindowMicros' 'most += 2 * l.LeaseMicros'
mutant rotates-at-rest plugin/redis/second_stream.go \
	'case nowMicros-s.usedMicros >= restMicros:' 'case false:'
mutant forgets-before-an-answer plugin/redis/link.go \
	'	if reopened && l.stream.tries' '	if reopened {
		l.observer.Reconnected()
	}
	if reopened && l.stream.tries'
mutant tier-read-late plugin/decide/override.go \
	'&o.matcher, limits, c.ahead)' '&o.matcher, limits, nil)'
mutant pool-hidden-by-a-guarantee plugin/decide/overload.go \
	'case limit == c.Limits.Pool: //' 'case limit == c.Limits.Pool && !hidden: //'
mutant other-sizes-unknown plugin/decide/overload.go \
	'len(e.sizes) != len(c.own) {' '!slices.Equal(e.sizes, c.own) {'
mutant what-another-class-has plugin/deny/cache.go \
	'left := d.Remaining - lower' 'left := d.Remaining'
mutant refund-that-clamps algo/bucket.go \
	'	r.size, r.debt = r.size-back, r.debt-back' '	r.size, r.debt = min(r.size, float64(b.capacity)*r.rate)-back, 0'
mutant values-not-kept plugin/decide/question.go \
	'	q.tags, c.Values = keep(q.tags, d.Values)' '	c.Values = d.Values'
exit $failed
