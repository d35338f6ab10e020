package algo

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestWaitsByDefinition: admitted requests, their waits included, depart as from an exact bucket,
// first come first served, and none waits too long. Departures are rounded up to
// whole microseconds, so the exact bucket has what returns within one of them more.
func TestWaitsByDefinition(t *testing.T) {
	t.Parallel()
	for _, a := range []Algorithm{TokenBucket, GCRA} {
		r, waited := newRandom(1300+uint64(a)), 0
		for range 300 {
			l := r.limit(a, r.wait)
			all := r.attempts(t, l, 150)
			exact, last := newExactBucket(l, all[0].at), int64(0)
			exact.capacity.Add(exact.capacity, exact.rate)
			exact.tokens.Set(exact.capacity)
			for _, a := range all {
				if !a.Allowed || a.cost == 0 {
					continue
				}
				leaves := a.at + a.DelayMicros
				inTurn := last <= leaves && a.DelayMicros <= l.MaxDelayMicros
				if exact.take(leaves, a.cost, 0) > 0 || !inTurn {
					t.Fatalf("%+v: %+v leaves at %d, the one before at %d; an exact bucket has %s / %d",
						l, a, leaves, last, exact.tokens, l.WindowMicros)
				}
				if last = leaves; a.DelayMicros > 0 {
					waited++
				}
			}
		}
		if waited < 1000 {
			t.Errorf("%s: only %d have waited", a, waited)
		}
	}
}

// TestWaitsAreExact: where intervals are whole microseconds, each request waits as long as in an exact
// bucket, to the microsecond, and is rejected just where that is longer than it may be.
func TestWaitsAreExact(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []Algorithm{TokenBucket, GCRA} {
		r := newRandom(1400 + uint64(algorithm))
		for range 200 {
			l := Limit{Algorithm: algorithm, Units: r.span(1, 1000), Burst: r.span(1, 1000), Queue: true}
			l.WindowMicros, l.MaxDelayMicros = l.Units*r.span(1, 50)*1000, r.span(1, 60_000)*1000
			exact := newExactBucket(l, 0)
			for _, a := range r.attempts(t, l, 150) {
				what := fmt.Sprintf("%+v: %d at %d", l, a.cost, a.at)
				want := Decision{Allowed: true}
				if a.cost > l.Capacity() {
					want = Decision{RetryAfterMicros: Never}
				} else if a.cost > 0 {
					want.DelayMicros = exact.take(a.at, a.cost, l.MaxDelayMicros)
				}
				if over := want.DelayMicros - l.MaxDelayMicros; over > 0 {
					want = Decision{RetryAfterMicros: over}
				}
				got := Decision{Allowed: a.Allowed, RetryAfterMicros: a.RetryAfterMicros, DelayMicros: a.DelayMicros}
				testenv.Same(t, what, got, want)
			}
		}
	}
}

// TestWithoutItsCharge: once a charge is given back, a queue with a burst shows the same as without
// it.
func TestWithoutItsCharge(t *testing.T) {
	t.Parallel()
	r := newRandom(1500)
	for range 200 {
		l := r.limit(GCRA, r.wait)
		p, states, out := mustPlan(t, l), make([]State, 1), make([]Decision, 1)
		now := epoch + r.Int64N(1e15)
		for range 50 {
			now += r.step(&l, out[0], now)
			before, cost := peek(p, states, now, 0), max(r.cost(l.Capacity()), 1)
			if !decide(p, states, now, cost, out) {
				continue
			}
			shown := out[0].Uncharged(cost)
			testenv.Same(t, fmt.Sprintf("%+v: what remains without %d", l, cost), shown.Remaining, before.Remaining)
			testenv.Same(t, fmt.Sprintf("%+v: the reset without %d", l, cost),
				shown.ResetAfterMicros, before.ResetAfterMicros)
		}
	}
}

// TestQueueAndMeterShareAState: a limit that is given a queue goes on with what its bucket holds, and
// without the queue again its own capacity is in use at most.
func TestQueueAndMeterShareAState(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	meter := Limit{Algorithm: GCRA, Units: 10, WindowMicros: 10e6, Burst: 5}
	queue := meter
	queue.Queue, queue.MaxDelayMicros = true, 3e6
	m, q := mustPlan(t, meter), mustPlan(t, queue)
	w := newTwins(t, onRedis(client), m, "shared")
	for _, c := range []struct {
		name      string
		plan      *Plan
		cost      int64
		remaining int64
		delay     int64
		retry     int64
	}{
		{"the meter takes the burst", m, 5, 0, 0, 0},
		{"the meter rejects more", m, 1, 0, 0, 1e6},
		{"the queue lets three wait", q, 3, 0, 3e6, 0},
		{"and no fourth", q, 1, 0, 0, 1e6},
		{"the meter has its own capacity in use", m, 1, 0, 0, 1e6},
	} {
		w.Plan = c.plan
		out, _ := w.decide(t, epoch, c.cost)
		testenv.Same(t, c.name+": what remains", out[0].Remaining, c.remaining)
		testenv.Same(t, c.name+": the delay", out[0].DelayMicros, c.delay)
		testenv.Same(t, c.name+": the wait", out[0].RetryAfterMicros, c.retry)
	}
}

// TestFinestTicksWaitLess: a limit of the finest ticks holds requests for two seconds at most, so that
// all sums are exact, and both twins agree.
func TestFinestTicksWaitLess(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	p := mustPlan(t, Limit{
		Algorithm: GCRA, Units: MaxUnits, WindowMicros: 1000, Burst: MaxCost, Queue: true, MaxDelayMicros: 60e6,
	})
	l := inBatch(t, client)
	w := newTwins(t, l, p, "finest")
	for range 2500 {
		w.decide(t, epoch, MaxCost)
	}
	l.flush(t)
	testenv.Same(t, "the longest wait in us", p.limiters[0].bucket.maxDelay, 1<<21)
}
