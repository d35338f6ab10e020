package algo

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestStepsByDefinition holds each decision on a bucket that is refilled in steps against a walk from step to
// step, which knows how many tokens are there.
func TestStepsByDefinition(t *testing.T) {
	eachRandom(t, TokenBucket, func(l Limit, _ []attempt) {
		r := newRandom(uint64(l.Units))
		l.Queue, l.MaxDelayMicros, l.Steps = false, 0, true
		l.Burst = r.span(1, min(50*l.Units, MaxUnits))
		if l.validate() != nil {
			return
		}
		all, tokens := r.attempts(t, l, 150), l.Capacity()
		next := floorTo(all[0].at, l.WindowMicros) + l.WindowMicros // when the next step comes
		for _, a := range all {
			for ; next <= a.at; next += l.WindowMicros {
				if tokens = min(tokens+l.Units, l.Capacity()); tokens == l.Capacity() { // further ones bring none
					next += (a.at - next) / l.WindowMicros * l.WindowMicros
				}
			}
			fits := a.cost <= tokens
			what := fmt.Sprintf("%+v: %d at %d", l, a.cost, a.at)
			testenv.Same(t, what+": that it is allowed", a.Allowed, fits)
			switch {
			case fits:
				tokens -= a.cost
			case a.cost > l.Capacity():
				testenv.Same(t, what+": the wait", a.RetryAfterMicros, Never)
			default:
				further := ceilDiv(a.cost-tokens, l.Units) - 1 // steps behind the next one
				testenv.Same(t, what+": the wait", a.RetryAfterMicros, next+further*l.WindowMicros-a.at)
			}
			testenv.Same(t, what+": what remains", a.Remaining, tokens)
			reset := int64(0)
			if missing := l.Capacity() - tokens; missing > 0 {
				reset = next + (ceilDiv(missing, l.Units)-1)*l.WindowMicros - a.at
			}
			testenv.Same(t, what+": the reset", a.ResetAfterMicros, reset)
		}
	})
}

// TestStepRestores: w and the reset are as of the step at which the bucket is full.
func TestStepRestores(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ limit, burst, want int64 }{
		{10, 0, 60e6}, {10, 10, 60e6}, {10, 11, 120e6}, {10, 95, 600e6}, {10, 3, 60e6}, {0, 5, 60e6},
	} {
		l := Limit{Algorithm: TokenBucket, Units: c.limit, Burst: c.burst, WindowMicros: 60e6, Steps: true}
		testenv.Same(t, fmt.Sprintf("%d a step, burst %d", c.limit, c.burst), l.RestoreMicros(), c.want)
	}
	long := Limit{Algorithm: TokenBucket, Units: 7, Burst: MaxUnits, WindowMicros: MaxWindowMicros, Steps: true}
	long.Fit()
	if full := long; long.RestoreMicros() > MaxRestoreMicros {
		t.Errorf("a burst of %d is restored in %d us", full.Burst, full.RestoreMicros())
	}
	long.Burst += long.Units
	if long.RestoreMicros() <= MaxRestoreMicros {
		t.Errorf("a burst of %d would have fitted, too", long.Burst)
	}
}

// stepSettlements are settlements of 4 units, charged 10 s after a step of a minute.
var stepSettlements = []struct {
	name          string
	busy          int64 // units charged before
	later         int64 // us, until the settlement
	gives         int64 // below 0: owes
	wantRemaining int64
	wantFullAfter int64 // us
}{
	{"within the step", 0, 5e6, 3, 9, 45e6},
	{"all of it", 0, 5e6, 4, 10, 0},
	{"after a step, of a bucket that lacks more", 6, 50e6, 4, 8, 60e6},
	{"owed within the step", 0, 5e6, -3, 3, 105e6},
	{"owed, at most one capacity on top of the capacity", 0, 5e6, -1000, 0, 285e6},
	{"owed, while steps have filled the bucket", 0, 110e6, -7, 10, 0},
	{"owed, beyond what steps have brought", 0, 50e6, -7, 7, 60e6},
}

// TestSettledSteps: of a bucket of 10 that 4 tokens a step refill, settlements are of the step in which
// the charge was made, and both twins say the same.
func TestSettledSteps(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for _, c := range stepSettlements {
		p := mustPlan(t, Limit{Algorithm: TokenBucket, Units: 4, Burst: 10, WindowMicros: 60e6, Steps: true})
		w, at := newTwins(t, onRedis(client), p, c.name), int64(epoch+10e6)
		w.decide(t, at, c.busy)
		w.decide(t, at, 4)
		w.refund(t, at, at+c.later, c.gives)
		out, _ := w.decide(t, at+c.later, 0)
		testenv.Same(t, c.name+": what remains", out[0].Remaining, c.wantRemaining)
		testenv.Same(t, c.name+": the reset", out[0].ResetAfterMicros, c.wantFullAfter)
	}
}
