package deny

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// TestClassesAreRemembered: a rejection of a class holds for lower ones, with their own waits, and
// for no higher one.
func TestClassesAreRemembered(t *testing.T) {
	t.Parallel()
	for _, a := range []algo.Algorithm{algo.GCRA, algo.FixedWindow, algo.SlidingWindowLog} {
		l := algo.Limit{Algorithm: a, Units: 10, WindowMicros: 10e6, Ceiling: algo.MaxCeiling}
		asked := func(percent int64) *rule.Demand {
			size := l.Size()
			size.Ceiling = percent
			return asksEach([]algo.Limit{l}, []algo.Size{size}, 1)
		}
		plan, err := algo.NewPlan([]algo.Limit{l})
		if err != nil {
			t.Fatal(err)
		}
		states, now := []algo.State{nil}, int64(1e12)
		out := make([]algo.Decision, 1)
		for range 5 {
			plan.Decide(states, now, []int64{1}, out)
		}
		decide := func(percent, at int64) algo.Decision {
			class, _ := plan.Sized(new(algo.Plan), asked(percent).Sizes)
			class.Check(states, at, []int64{1}, out)
			return out[0]
		}
		c := New(4, 1)
		c.remember("r|a", asked(50), []algo.Decision{decide(50, now)}, 0, now, 60e6)
		e := c.find("r|a")
		for _, percent := range []int64{50, 40, 20, 100, 60} {
			text := fmt.Sprintf("%s, %d %%", a, percent)
			rejects, known := e.about(asked(percent), 1000, out)
			testenv.Same(t, text+": known", known, percent <= 50)
			if !known {
				continue
			}
			got, want := out[0], decide(percent, now+1000)
			testenv.Same(t, text+": rejects", rejects, true)
			testenv.Same(t, text+": remaining", got.Remaining, want.Remaining)
			if got.RetryAfterMicros < want.RetryAfterMicros {
				t.Errorf("%s: the wait is %d, want %d at least", text, got.RetryAfterMicros, want.RetryAfterMicros)
			}
		}
	}
}

// TestSmallerCostOfClass: what a class has room for is never refused from memory, however large a
// cost was rejected before.
func TestSmallerCostOfClass(t *testing.T) {
	t.Parallel()
	l := algo.Limit{Algorithm: algo.FixedWindow, Units: 20, WindowMicros: 86_400e6, Ceiling: algo.MaxCeiling}
	asked := func(percent, cost int64) *rule.Demand {
		size := l.Size()
		size.Ceiling = percent
		return asksEach([]algo.Limit{l}, []algo.Size{size}, cost)
	}
	c := New(4, 1)
	tooMuch := algo.Decision{Remaining: 20, RetryAfterMicros: algo.Never}
	c.remember("r|a", asked(100, 21), []algo.Decision{tooMuch}, 0, 1e12, 60e6)
	e, out := c.find("r|a"), make([]algo.Decision, 1)
	for _, tc := range []struct {
		percent, cost int64
		known         bool
	}{{100, 0, false}, {100, 1, false}, {100, 20, false}, {100, 21, true}, {50, 1, false}, {50, 22, true}} {
		_, known := e.about(asked(tc.percent, tc.cost), 1000, out)
		testenv.Same(t, fmt.Sprintf("%d %%, a cost of %d: known", tc.percent, tc.cost), known, tc.known)
	}
}
