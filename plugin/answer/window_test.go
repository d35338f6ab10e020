package answer

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

var reset = regexp.MustCompile(`;t=([0-9]+)$`)

// tells is "t" of a limit; -1 where it says none.
func tells(l Limit, atMicros, retrySeconds int64) int64 {
	w := New(&config.Config{Headers: draftOnly}, 1)
	w.addDraft([]Limit{l}, atMicros, retrySeconds, Upstream{})
	if t := reset.FindStringSubmatch(w.fields[1][1]); t != nil {
		seconds, _ := strconv.ParseInt(t[1], 10, 64)
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
	aQueue    = algo.Limit{
		Algorithm: algo.GCRA, Units: 10, WindowMicros: 60e6, Burst: 20, Queue: true, MaxDelayMicros: 6e6,
	}
	inSteps = algo.Limit{Algorithm: algo.TokenBucket, Units: 10, WindowMicros: 60e6, Burst: 30, Steps: true}
	ofZero  = algo.Limit{Algorithm: algo.FixedWindow, WindowMicros: 60e6}
	aSlots  = algo.Limit{Algorithm: algo.Concurrency, Units: 10, TTLMicros: 30e6}
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
		{name: "a bucket with a queue", limit: of(aQueue, 5, 90e6), want: 30},
		{name: "a bucket whose queue holds a request", limit: of(aQueue, 0, 126e6), want: 6},
		{name: "one that rejects what cannot wait", limit: refuses(aQueue, 0, 126e6, 1e6), retry: 1, want: 1},
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
		testenv.Same(t, tt.name, tells(tt.limit, at, tt.retry), tt.want)
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

// together are lists of limits of one rule: levels, and limits that may pay for the others.
var together = [][]algo.Limit{
	{obeyed[0], obeyed[12]},
	{obeyed[3], obeyed[4], obeyed[8]},
	{obeyed[13], obeyed[6], obeyed[1]},
	{obeyed[9], obeyed[0]},
	{obeyed[0], pays(obeyed[6])},
	{obeyed[12], obeyed[3], pays(obeyed[1]), pays(obeyed[10])},
	{obeyed[8], pays(obeyed[5]), pays(obeyed[13])},
	{ofZero, pays(obeyed[12])},
}

func pays(l algo.Limit) algo.Limit {
	l.Over = true
	return l
}

// TestObedientClient: a client that uses at most "r" within "t" of each of its limits, and has them of its
// own, is never rejected. Where other limits may pay, it uses what it has seen of them, too.
func TestObedientClient(t *testing.T) {
	t.Parallel()
	lists := together
	for i := range obeyed {
		lists = append(lists, obeyed[i:i+1])
	}
	for i, limits := range lists {
		t.Run(fmt.Sprintf("%d-%v", i, limits[0].Algorithm), func(t *testing.T) {
			t.Parallel()
			plan, err := algo.NewPlan(limits)
			if err != nil {
				t.Fatal(err)
			}
			c := &obedient{
				T: t, plan: plan, states: make([]algo.State, len(limits)), known: make([]told, len(limits)),
				random: rand.New(rand.NewPCG(uint64(i), 1)), nowMicros: 1_700_000_000_123_457,
			}
			for j := range limits {
				c.labels = append(c.labels, policy("p", limits[j]))
				c.known[j] = told{1, 1, c.nowMicros} // of a limit that pays it knows that there is one
			}
			c.use(0)
			for range 1000 {
				// The client uses some of what it was told to have, or waits until there is more.
				list := c.known[:c.plan.Own()]
				others, likes := c.known[c.plan.Own():], c.random.IntN(2) == 0 || list[0].t < 0 // a limit of 0 has no "t"
				if len(others) > 0 && likes {
					list = others
				}
				left, ends, wakes := int64(algo.MaxUnits), c.nowMicros+1e9, c.nowMicros
				for _, k := range list {
					left, ends = min(left, k.r), min(ends, k.atMicros+k.t*1e6)
					if k.r == 0 {
						wakes = max(wakes, k.atMicros+k.t*1e6)
					}
				}
				if left == 0 {
					c.nowMicros = wakes
					c.use(1)
					continue
				}
				for left > 0 && c.random.IntN(8) > 0 { // it looks at the last of several answers alone
					cost := 1 + c.random.Int64N(left)
					if ends > c.nowMicros && c.random.IntN(2) == 0 {
						c.nowMicros += c.random.Int64N(ends - c.nowMicros + 1)
					}
					c.use(cost)
					left -= cost
				}
				if c.random.IntN(4) == 0 {
					c.nowMicros += c.random.Int64N(2*c.plan.Limits()[0].RestoreMicros() + 1)
				}
			}
			if others := c.plan.Own() < len(limits); others != (c.paid > 100) {
				t.Errorf("others pay for %d requests", c.paid)
			}
		})
	}
}

// told is what a client knows of a limit: "r" and "t", and when it was told so.
type told struct{ r, t, atMicros int64 }

// obedient is a client that is the only one of its limits.
type obedient struct {
	*testing.T
	plan      *algo.Plan
	states    []algo.State
	labels    []*Label
	random    *rand.Rand
	nowMicros int64
	known     []told // parallel to the limits
	paid      int    // requests for which others paid
}

func (c *obedient) use(cost int64) {
	c.Helper()
	plan, n := c.plan, len(c.states)
	l := &plan.Limits()[0]
	if l.CalendarID != "" {
		begin := c.nowMicros - c.nowMicros%l.WindowMicros
		bounds := algo.Bounds{begin - l.WindowMicros, begin, begin + l.WindowMicros, begin + 2*l.WindowMicros}
		plan, _ = plan.Sized(new(algo.Plan), []algo.Size{{Units: l.Units, Bounds: bounds}})
	}
	out, costs := make([]algo.Decision, n), slices.Repeat([]int64{cost}, n)
	plan.Rebase(c.states, c.nowMicros)
	if !plan.Decide(c.states, c.nowMicros, costs, out) {
		c.Fatalf("a cost of %d is rejected at %d, when %v was told: %+v", cost, c.nowMicros, c.known, out)
	}
	othersPay := plan.OthersPay(out)
	if othersPay {
		c.paid++
	}
	for i := range out {
		if i >= plan.Own() && !othersPay {
			break // they were not asked
		}
		shown := Limit{Label: c.labels[i], Decision: out[i], Sized: &plan.Limits()[i]}
		if d := &shown.Decision; othersPay && !d.Allowed {
			d.Allowed, d.Remaining = true, 0 // as package decide shows it
		}
		k := told{shown.Decision.Remaining, tells(shown, c.nowMicros, 0), c.nowMicros}
		w := max(1, seconds(shown.restoreMicros()))
		if k.t < 1 && plan.Limits()[i].Units > 0 {
			c.Fatalf("r=%d;t=%d: %+v", k.r, k.t, out[i])
		}
		if k.t > w && k.r > 0 {
			c.Fatalf("r=%d;t=%d with w=%d: %+v", k.r, k.t, w, out[i])
		}
		c.known[i] = k
	}
}
