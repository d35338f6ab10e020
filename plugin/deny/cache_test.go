package deny

import (
	"testing"

	"github.com/sluiceproxy/sluice/algo"
)

const second = 1_000_000

var (
	gcra    = algo.Limit{Algorithm: algo.GCRA, Units: 10, WindowMicros: second, Burst: 20}
	window  = algo.Limit{Algorithm: algo.FixedWindow, Units: 10, WindowMicros: 60 * second}
	counter = algo.Limit{Algorithm: algo.SlidingWindowCounter, Units: 10, WindowMicros: 60 * second}
	logged  = algo.Limit{Algorithm: algo.SlidingWindowLog, Units: 10, WindowMicros: 60 * second}
)

func rejected(remaining, reset, retry int64) algo.Decision {
	return algo.Decision{Remaining: remaining, ResetAfterMicros: reset, RetryAfterMicros: retry}
}

func admitted(remaining, reset int64) algo.Decision {
	return algo.Decision{Allowed: true, Remaining: remaining, ResetAfterMicros: reset}
}

// At second 100 a cost of 3 was decided on; then a cost comes some time later.
func TestDecide(t *testing.T) {
	t.Parallel()
	const now = 100 * second
	for _, tc := range []struct {
		name      string
		limit     algo.Limit
		then      algo.Decision
		cost, age int64
		want      algo.Decision
		unknown   bool
	}{
		{name: "at once", limit: gcra, then: rejected(0, second, 300_000), cost: 3, want: rejected(0, second, 300_000)},
		{name: "later", limit: gcra, then: rejected(0, second, 300_000), cost: 3, age: 299_999, want: rejected(0, 700_001, 1)},
		{name: "when the wait is over", limit: gcra, then: rejected(0, second, 300_000), cost: 3, age: 300_000, unknown: true},
		{name: "a smaller cost", limit: gcra, then: rejected(2, second, 100_000), cost: 2, unknown: true},
		{name: "a higher cost of a bucket", limit: gcra, then: rejected(0, second, 300_000), cost: 5, age: 10, want: rejected(0, second-10, 499_990)},
		{name: "a higher cost of a window", limit: window, then: rejected(2, 9*second, 9*second), cost: 4, want: rejected(2, 9*second, 9*second)},
		{name: "a higher cost of a counter", limit: counter, then: rejected(2, 9*second, 9*second), cost: 4, unknown: true},
		{name: "a higher cost of a log", limit: logged, then: rejected(2, 9*second, 9*second), cost: 4, unknown: true},
		{name: "a cost above the capacity", limit: gcra, then: rejected(0, second, 300_000), cost: 21, want: rejected(0, second, algo.Never)},
		{name: "that was above it before", limit: gcra, then: rejected(0, second, algo.Never), cost: 3, age: second, want: rejected(0, 0, algo.Never)},
		{name: "allowed", limit: gcra, then: admitted(5, second), cost: 5, age: 1000, want: admitted(5, second-1000)},
		{name: "allowed, but not so much", limit: gcra, then: admitted(5, second), cost: 6, unknown: true},
		{name: "allowed, long ago", limit: gcra, then: admitted(5, second), cost: 1, age: MaxHoldMicros, unknown: true},
		{name: "the hold is over", limit: window, then: rejected(0, 60*second, 60*second), cost: 3, age: MaxHoldMicros, unknown: true},
		{name: "the hold is nearly over", limit: window, then: rejected(0, 60*second, 60*second), cost: 3, age: MaxHoldMicros - 1, want: rejected(0, 50*second+1, 50*second+1)},
	} {
		c := New(4)
		c.Remember(1, []byte("tag"), 3, []algo.Decision{tc.then}, now, 5*second, MaxHoldMicros)
		out := make([]algo.Decision, 1)
		e := c.Find(1, []byte("tag"))
		rejects, known := e.Decide([]algo.Limit{tc.limit}, tc.cost, now+tc.age, out)
		if known == tc.unknown {
			t.Errorf("%s: known %v", tc.name, known)
		}
		if known && rejects == tc.want.Allowed {
			t.Errorf("%s: rejects %v", tc.name, rejects)
		}
		if known && out[0] != tc.want {
			t.Errorf("%s: %+v, want %+v", tc.name, out[0], tc.want)
		}
		if e.AtMicros != now || e.StoreMicros != 5*second {
			t.Errorf("%s: at %d, %d", tc.name, e.AtMicros, e.StoreMicros)
		}
	}
}

// Of several limits the longest wait counts, and one that would now be exceeded
// too makes the answer unknown.
func TestSeveralLimits(t *testing.T) {
	t.Parallel()
	c, limits := New(4), []algo.Limit{gcra, window}
	out := make([]algo.Decision, 2)
	c.Remember(0, []byte("a"), 1, []algo.Decision{rejected(0, second, 100), rejected(0, second, 900)}, 0, 0, MaxHoldMicros)
	if rejects, _ := c.Find(0, []byte("a")).Decide(limits, 1, 899, out); !rejects {
		t.Error("the longest wait does not reject")
	}
	if out[0].RetryAfterMicros != 1 {
		t.Errorf("retry after %d us, want 1", out[0].RetryAfterMicros)
	}
	c.Remember(0, []byte("b"), 1, []algo.Decision{rejected(0, second, 500), admitted(2, second)}, 0, 0, MaxHoldMicros)
	if rejects, _ := c.Find(0, []byte("b")).Decide(limits, 2, 1, out); !rejects {
		t.Error("a cost that the other limit allows is not known")
	}
	if _, known := c.Find(0, []byte("b")).Decide(limits, 3, 1, out); known {
		t.Error("a cost that the other limit may reject is known")
	}
}

func TestForgetAndClear(t *testing.T) {
	t.Parallel()
	c := New(4)
	out := make([]algo.Decision, 1)
	c.Remember(0, []byte("a"), 1, []algo.Decision{rejected(0, second, second)}, 0, 0, MaxHoldMicros)
	c.Forget(0, []byte("a"))
	c.Forget(0, []byte("unknown"))
	if _, known := c.Find(0, []byte("a")).Decide([]algo.Limit{gcra}, 1, 0, out); known {
		t.Error("what was forgotten is known")
	}
	c.Clear()
	if c.Find(0, []byte("a")) != nil {
		t.Error("what was cleared is there")
	}
}

// The caller says how long a rejection may be remembered.
func TestHold(t *testing.T) {
	t.Parallel()
	c, out := New(4), make([]algo.Decision, 1)
	c.Remember(0, []byte("a"), 1, []algo.Decision{rejected(0, second, second)}, 0, 0, SharedHoldMicros)
	if rejects, _ := c.Find(0, []byte("a")).Decide([]algo.Limit{window}, 1, SharedHoldMicros-1, out); !rejects {
		t.Error("forgotten before the hold is over")
	}
	if _, known := c.Find(0, []byte("a")).Decide([]algo.Limit{window}, 1, SharedHoldMicros, out); known {
		t.Error("remembered beyond the hold")
	}
}
