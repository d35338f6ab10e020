package answer

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// tells is "t" of a limit; -1 where it says none.
func tells(t *testing.T, l Limit, atMicros, retrySeconds int64) int64 {
	t.Helper()
	w := New(&config.Config{Headers: draftOnly}, 1)
	w.addDraft([]Limit{l}, atMicros, retrySeconds, Upstream{})
	list, err := parseList(w.fields[1][1])
	if err != nil || len(list) != 1 {
		t.Fatalf("%q: %v", w.fields[1][1], err)
	}
	if seconds, ok := list[0].params["t"]; ok {
		return seconds
	}
	return -1
}

// One limit of each kind, of a minute.
var (
	aFixed    = algo.Limit{Algorithm: algo.FixedWindow, Units: 10, WindowMicros: 60e6}
	fromFirst = algo.Limit{Algorithm: algo.FixedWindow, Units: 10, WindowMicros: 60e6, FromFirstRequest: true}
	aLog      = algo.Limit{Algorithm: algo.SlidingWindowLog, Units: 10, WindowMicros: 60e6}
	aCounter  = algo.Limit{Algorithm: algo.SlidingWindowCounter, Units: 10, WindowMicros: 60e6}
	aBucket   = algo.Limit{Algorithm: algo.GCRA, Units: 10, WindowMicros: 60e6, Burst: 20}
	inSteps   = algo.Limit{Algorithm: algo.TokenBucket, Units: 10, WindowMicros: 60e6, Burst: 30, Steps: true}
	ofZero    = algo.Limit{Algorithm: algo.FixedWindow, WindowMicros: 60e6}
	aSlots    = algo.Limit{Algorithm: algo.Concurrency, Units: 10, TTLMicros: 30e6}
)

// TestEffectiveWindow: "t" by the definition of each algorithm.
func TestEffectiveWindow(t *testing.T) {
	t.Parallel()
	const at = 1_700_000_000e6 // 20 s before the end of a minute
	of := func(l algo.Limit, remaining, reset int64) Limit { return allowed(policy("p", l), remaining, reset) }
	refuses := func(l algo.Limit, remaining, reset, retry int64) Limit {
		return rejected(policy("p", l), remaining, reset, retry)
	}
	half := of(aBucket, 5, 30e6)
	half.Sized = &algo.Limit{Algorithm: algo.GCRA, Units: 5, WindowMicros: 60e6}
	fresh := calendarDay(24 * 3600e6)
	fresh.Decision.ResetAfterMicros, fresh.Decision.EndsMicros = 0, at+7200e6
	excused := refuses(aBucket, 0, 120e6, 4e6)
	excused.Decision.Allowed = true
	for _, tt := range []struct {
		name  string
		limit Limit
		retry int64 // seconds
		want  int64
	}{
		{name: "a fixed window, until it ends", limit: of(aFixed, 3, 12e6), want: 12},
		{name: "a fixed window of which nothing is used", limit: of(aFixed, 10, 0), want: 40},
		{name: "a calendar window", limit: calendarDay(24 * 3600e6), want: 3600},
		{name: "a calendar window of which nothing is used", limit: fresh, want: 7200},
		{name: "the window of a first request", limit: of(fromFirst, 3, 12e6), want: 12},
		{name: "a window that no request has begun", limit: of(fromFirst, 10, 0), want: 60},
		{name: "a log", limit: of(aLog, 3, 50_000_001), want: 51},
		{name: "a log of nothing", limit: of(aLog, 10, 0), want: 60},
		{name: "a counter", limit: of(aCounter, 3, 50e6), want: 50},
		{name: "a counter of nothing", limit: of(aCounter, 10, 0), want: 60},
		{name: "a counter of two windows", limit: of(aCounter, 3, 110e6), want: 60},
		{name: "a counter with nothing left", limit: of(aCounter, 0, 110e6), want: 110},
		{name: "a bucket", limit: of(aBucket, 5, 90e6), want: 30},
		{name: "a full bucket", limit: of(aBucket, 20, 0), want: 120},
		{name: "an empty bucket", limit: of(aBucket, 0, 120e6), want: 6},
		{name: "a bucket of another size", limit: half, want: 60},
		{name: "steps", limit: of(inSteps, 5, 133e6), want: 13},
		{name: "steps, until the bucket is full", limit: of(inSteps, 25, 60e6), want: 60},
		{name: "a full bucket of steps", limit: of(inSteps, 30, 0), want: 40},
		{name: "at least a second", limit: of(aFixed, 3, 1), want: 1},
		{name: "a limit of 0", limit: of(ofZero, 0, 0), want: -1},
		{name: "slots", limit: of(aSlots, 3, 0), want: -1},
		{name: "one that rejects", limit: refuses(aBucket, 0, 120e6, 4e6), retry: 4, want: 4},
		{name: "one that rejects for longer than the answer", limit: refuses(aBucket, 0, 120e6, 4e6), retry: 2, want: 2},
		{name: "one that rejects for less long", limit: refuses(aBucket, 0, 120e6, 4e6), retry: 9, want: 4},
		{name: "one that rejects for longer than a window", limit: refuses(aCounter, 1, 119e6, 70e6), retry: 70, want: 60},
		{name: "one that can never admit the cost", limit: refuses(aBucket, 3, 100e6, algo.Never), want: 100},
		{name: "one that can never admit it, of which nothing is used", limit: refuses(aBucket, 20, 0, algo.Never), want: 1},
		{name: "one that would reject, but is excused", limit: excused, want: 4},
		{name: "a block", limit: blocked(policy("p", aBucket), 500e6), retry: 500, want: 500},
		{name: "a block of a limit of 0", limit: blocked(policy("p", ofZero), 5e6), retry: 5, want: 5},
		{name: "a block without end", limit: blocked(policy("p", aBucket), algo.Never), want: -1},
	} {
		testenv.Same(t, tt.name, tells(t, tt.limit, at, tt.retry), tt.want)
	}
}

// obeyed are limits of every algorithm and variant.
var obeyed = []algo.Limit{
	{Algorithm: algo.FixedWindow, Units: 7, WindowMicros: 10e6},
	{Algorithm: algo.FixedWindow, Units: 7, WindowMicros: 1500e3, FromFirstRequest: true},
	{Algorithm: algo.FixedWindow, Units: 7, WindowMicros: 3600e6, CalendarID: "day:Test/Hours"},
	{Algorithm: algo.SlidingWindowLog, Units: 7, WindowMicros: 10e6},
	{Algorithm: algo.SlidingWindowCounter, Units: 7, WindowMicros: 10e6},
	{Algorithm: algo.SlidingWindowCounter, Units: 100, WindowMicros: 60e6, SubWindows: 6},
	{Algorithm: algo.TokenBucket, Units: 3, WindowMicros: 10e6, Burst: 9},
	{Algorithm: algo.TokenBucket, Units: 1000, WindowMicros: 1e6},
	{Algorithm: algo.TokenBucket, Units: 3, WindowMicros: 7e6, Burst: 10, Steps: true},
	{Algorithm: algo.TokenBucket, Units: 3, WindowMicros: 10e6, Burst: 9, Queue: true, MaxDelayMicros: 5e6},
	{Algorithm: algo.LeakyBucket, Units: 3, WindowMicros: 10e6, Burst: 9},
	{Algorithm: algo.LeakyBucket, Units: 3, WindowMicros: 10e6, Burst: 9, Queue: true, MaxDelayMicros: 60e6},
	{Algorithm: algo.GCRA, Units: 7, WindowMicros: 60e6, Burst: 2},
	{Algorithm: algo.GCRA, Units: 3, WindowMicros: 10e6, Burst: 9, Ceiling: 50},
	{Algorithm: algo.GCRA, Units: 3, WindowMicros: 10e6, Burst: 9, Queue: true, MaxDelayMicros: 5e6},
}

// TestObedientClient: a client that uses at most "r" within "t", and has a limit of its own, is never
// rejected.
func TestObedientClient(t *testing.T) {
	t.Parallel()
	for i, l := range obeyed {
		t.Run(fmt.Sprintf("%d-%v", i, l.Algorithm), func(t *testing.T) {
			t.Parallel()
			c := newObedient(t, &l, uint64(i))
			for range 1000 {
				if c.r == 0 {
					c.nowMicros += c.t * 1e6
					c.use(1)
					continue
				}
				left := c.r
				ends := c.nowMicros + c.t*1e6
				for left > 0 && c.random.IntN(8) > 0 { // it looks at the last of several answers alone
					cost := 1 + c.random.Int64N(left)
					if c.random.IntN(2) == 0 {
						c.nowMicros += c.random.Int64N(ends - c.nowMicros + 1)
					}
					c.use(cost)
					left -= cost
				}
				if c.random.IntN(4) == 0 {
					c.nowMicros += c.random.Int64N(2*l.RestoreMicros() + 1)
				}
			}
		})
	}
}

// obedient is a client that is the only one of its limit.
type obedient struct {
	*testing.T
	plan      *algo.Plan
	states    []algo.State
	label     *Label
	random    *rand.Rand
	nowMicros int64
	r, t      int64 // of the last answer
}

func newObedient(t *testing.T, l *algo.Limit, seed uint64) *obedient {
	t.Helper()
	plan, err := algo.NewPlan([]algo.Limit{*l})
	if err != nil {
		t.Fatal(err)
	}
	c := &obedient{
		T: t, plan: plan, states: make([]algo.State, 1), label: policy("p", *l),
		random: rand.New(rand.NewPCG(seed, 1)), nowMicros: 1_700_000_000_123_457,
	}
	c.use(0)
	return c
}

func (c *obedient) use(cost int64) {
	c.Helper()
	plan := c.plan
	l := &plan.Limits()[0]
	if l.CalendarID != "" {
		begin := c.nowMicros - c.nowMicros%l.WindowMicros
		bounds := algo.Bounds{begin - l.WindowMicros, begin, begin + l.WindowMicros, begin + 2*l.WindowMicros}
		plan, _ = plan.Sized(new(algo.Plan), []algo.Size{{Units: l.Units, Bounds: bounds}})
	}
	out := make([]algo.Decision, 1)
	plan.Rebase(c.states, c.nowMicros)
	if !plan.Decide(c.states, c.nowMicros, []int64{cost}, out) {
		c.Fatalf("a cost of %d is rejected at %d, when r=%d;t=%d was told: %+v", cost, c.nowMicros, c.r, c.t, out[0])
	}
	shown := Limit{Label: c.label, Decision: out[0], Sized: &plan.Limits()[0]}
	c.r, c.t = out[0].Remaining, tells(c.T, shown, c.nowMicros, 0)
	w := max(1, seconds(shown.restoreMicros()))
	if c.t < 1 {
		c.Fatalf("r=%d;t=%d: %+v", c.r, c.t, out[0])
	}
	if c.t > w && c.r > 0 {
		c.Fatalf("r=%d;t=%d with w=%d: %+v", c.r, c.t, w, out[0])
	}
}
