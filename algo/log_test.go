package algo

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// longestCall is how long Redis may compute for one call. It is a few milliseconds at most.
const longestCall = 25 * time.Millisecond

// TestCallsOnALargeLogAreShort: whatever the limit, the cost and the number of
// charges.
func TestCallsOnALargeLogAreShort(t *testing.T) {
	t.Parallel()
	const charges, window = 50_000, 3600e6
	client := startRedis(t)
	plain := mustPlan(t, Limit{Algorithm: SlidingWindowLog, Units: MaxUnits, WindowMicros: window})
	l := onRedis(client)
	w, last := newTwins(t, l, plain, "large"), int64(epoch)
	for n := range charges {
		last += window / 2 / charges
		l.batch = n%10_000 < 9_999
		w.decide(t, last, 1)
	}
	if n := client.ZCard(ctx, w.keys[0]).Val(); n > 2*logEntries+2 {
		t.Errorf("%d entries, want at most twice %d", n, logEntries)
	}
	call := func(what string, now, cost int64) Decision {
		before := computed(t, client)
		out, _ := w.decide(t, now, cost)
		took := computed(t, client) - before
		t.Logf("%-46s %v", what, took)
		if took > longestCall {
			t.Errorf("%s: Redis computes for %v, want at most %v", what, took, longestCall)
		}
		return out[0]
	}
	call("one more", last, 1)
	call("the highest cost", last, MaxCost)
	w.refund(t, last, last, MaxCost)
	w.Plan, _ = plain.Sized(new(Plan), []Size{{Units: charges}})
	call("rejected: the oldest must leave", last, 2)
	call("rejected: all must leave", last, charges)
	w.Plan = plain
	if d := call("half of the charges have left at once", last+window*3/4, 1); d.Remaining < MaxUnits-charges {
		t.Errorf("%+v", d)
	}
	for n := range int64(10) {
		w.decide(t, last+window*3/4+n, 1)
	}
	call("the clock was set back by the whole window", epoch, 1)
	if n := client.ZCard(ctx, w.keys[0]).Val(); n != 1 {
		t.Errorf("%d entries after the clock was set back, want 1", n)
	}
}

// TestLogOfManyCharges: beyond its exact entries a log admits no more than its
// definition, and what it admits later is late by less than a cell; Go and Lua
// agree, and what was charged can be given back.
func TestLogOfManyCharges(t *testing.T) {
	t.Parallel()
	const limit, window = 3 * logEntries, 4e6
	client, r := startRedis(t), newRandom(77)
	p := mustPlan(t, Limit{Algorithm: SlidingWindowLog, Units: limit, WindowMicros: window})
	l := inBatch(t, client)
	w, cell := newTwins(t, l, p, "many"), p.limiters[0].log.cell
	var admitted []attempt // and not given back
	now := int64(epoch)
	for range 3 {
		for range 3000 {
			now += r.span(1, 1500)
			cost := r.span(1, 3)
			if out, allowed := w.decide(t, now, cost); allowed {
				admitted = append(admitted, attempt{now, cost, out[0]})
				if used := sumCosts(admitted, now-window+1); used > limit {
					t.Fatalf("%d units in a window, want at most %d", used, limit)
				}
			} else if used := sumCosts(admitted, now-window-cell+1); used+cost <= limit {
				t.Fatalf("cost %d is denied with %d in the window and the cell before it", cost, used)
			}
			if r.oneIn(10) && len(admitted) > 0 {
				i := len(admitted) - 1 - r.IntN(min(len(admitted), 1000))
				w.refund(t, admitted[i].at, now, admitted[i].cost)
				admitted = append(admitted[:i], admitted[i+1:]...)
			}
		}
		l.flush(t)
		if n := len(w.states[0]) / entryLen; n <= logEntries || n > 2*logEntries+2 {
			t.Errorf("%d entries: the test shows nothing, or they are too many", n)
		}
	}
}

// computed is how long Redis' main thread has computed. Waiting for a processor does not count.
// https://redis.io/docs/latest/commands/info/
func computed(t testing.TB, client *redis.Client) (sum time.Duration) {
	t.Helper()
	info := client.InfoMap(ctx, "cpu")
	for _, name := range []string{"used_cpu_user_main_thread", "used_cpu_sys_main_thread"} {
		took, err := time.ParseDuration(info.Item("CPU", name) + "s")
		testenv.OK(t, err)
		sum += took
	}
	return sum
}
