package deny

import (
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
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

// asks is a request that wants the same cost of each limit.
func asks(cost int64, limits ...algo.Limit) *rule.Demand {
	return asksEach(limits, nil, slices.Repeat([]int64{cost}, len(limits))...)
}

// asksEach is a request for limits of sizes, that wants a cost of each.
func asksEach(limits []algo.Limit, sizes []algo.Size, costs ...int64) *rule.Demand {
	plan, err := algo.NewPlan(limits)
	if err != nil {
		panic(err)
	}
	set := &rule.LimitSet{Plan: plan, Parts: []rule.Part{{}}}
	for i, l := range limits {
		set.Limits, set.Parts[0].Limits = append(set.Limits, config.Limit{Limit: l}), append(set.Parts[0].Limits, i)
	}
	return &rule.Demand{Limits: set, Costs: costs, Sizes: sizes}
}

// remember keeps decisions on a request.
func (c *Cache) remember(tag string, d *rule.Demand, decisions []algo.Decision, nowMicros, storeMicros, ttl int64) {
	c.Remember([]byte(tag), d, &d.Limits.Parts[0], decisions, nowMicros, storeMicros, ttl)
}

// find is the entry of a tag.
func (c *Cache) find(tag string) *Entry { return c.Find(0, []byte(tag)) }

// about is what an entry says of a request.
func (e *Entry) about(d *rule.Demand, nowMicros int64, out []algo.Decision) (rejects, known bool) {
	r, known := e.Ruling(d, &d.Limits.Parts[0], nowMicros, out)
	return known && !r.Allowed, known
}

// memories are decisions on a cost of 3 that were remembered at second 100, and what they say of
// a cost some time later.
var memories = []struct {
	name      string
	limit     algo.Limit
	then      algo.Decision
	cost, age int64
	want      algo.Decision
	unknown   bool
}{
	{name: "at once", limit: gcra, then: rejected(0, second, 300_000), cost: 3, want: rejected(0, second, 300_000)},
	{
		name: "later", limit: gcra, then: rejected(0, second, 300_000), cost: 3, age: 299_999,
		want: rejected(0, 700_001, 1),
	},
	{
		name: "when the wait is over", limit: gcra, then: rejected(0, second, 300_000), cost: 3,
		age: 300_000, unknown: true,
	},
	{name: "a smaller cost", limit: gcra, then: rejected(2, second, 100_000), cost: 2, unknown: true},
	{
		name: "a higher cost of a bucket", limit: gcra, then: rejected(0, second, 300_000), cost: 5, age: 10,
		want: rejected(0, second-10, 499_990),
	},
	{
		name: "a higher cost of a window", limit: window, then: rejected(2, 9*second, 9*second), cost: 4,
		want: rejected(2, 9*second, 9*second),
	},
	{name: "a higher cost of a counter", limit: counter, then: rejected(2, 9*second, 9*second), cost: 4, unknown: true},
	{name: "a higher cost of a log", limit: logged, then: rejected(2, 9*second, 9*second), cost: 4, unknown: true},
	{
		name: "a cost above the capacity", limit: gcra, then: rejected(0, second, 300_000), cost: 21,
		want: rejected(0, second, algo.Never),
	},
	{
		name: "that was above it before", limit: gcra, then: rejected(0, second, algo.Never), cost: 3, age: second,
		want: rejected(0, 0, algo.Never),
	},
	{name: "allowed", limit: gcra, then: admitted(5, second), cost: 5, age: 1000, want: admitted(5, second-1000)},
	{name: "allowed, but not so much", limit: gcra, then: admitted(5, second), cost: 6, unknown: true},
	{name: "allowed, long ago", limit: gcra, then: admitted(5, second), cost: 1, age: RejectionTTLMicros, unknown: true},
	{
		name: "the ttl is over", limit: window, then: rejected(0, 60*second, 60*second), cost: 3, age: RejectionTTLMicros,
		unknown: true,
	},
	{
		name: "the hold is nearly over", limit: window, then: rejected(0, 60*second, 60*second), cost: 3,
		age: RejectionTTLMicros - 1, want: rejected(0, 50*second+1, 50*second+1),
	},
}

// At second 100 a cost of 3 was decided on; then a cost comes some time later.
func TestDecide(t *testing.T) {
	t.Parallel()
	const now = 100 * second
	for _, tc := range memories {
		c := New(4, 1)
		c.remember("tag", asks(3, tc.limit), []algo.Decision{tc.then}, now, 5*second, RejectionTTLMicros)
		out := make([]algo.Decision, 1)
		e := c.find("tag")
		rejects, known := e.about(asks(tc.cost, tc.limit), now+tc.age, out)
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
	c := New(4, 1)
	out := make([]algo.Decision, 2)
	c.remember("a", asks(1, gcra, window), []algo.Decision{rejected(0, second, 100), rejected(0, second, 900)},
		0, 0, RejectionTTLMicros)
	if rejects, _ := c.find("a").about(asks(1, gcra, window), 899, out); !rejects {
		t.Error("the longest wait does not reject")
	}
	if out[0].RetryAfterMicros != 1 {
		t.Errorf("retry after %d us, want 1", out[0].RetryAfterMicros)
	}
	c.remember("b", asks(1, gcra, window), []algo.Decision{rejected(0, second, 500), admitted(2, second)},
		0, 0, RejectionTTLMicros)
	if rejects, _ := c.find("b").about(asks(2, gcra, window), 1, out); !rejects {
		t.Error("a cost that the other limit allows is not known")
	}
	if _, known := c.find("b").about(asks(3, gcra, window), 1, out); known {
		t.Error("a cost that the other limit may reject is known")
	}
}

// Where other limits may pay, what is remembered is of the very same cost.
func TestLimitsThatPay(t *testing.T) {
	t.Parallel()
	c, out := New(4, 1), make([]algo.Decision, 2)
	credits := window
	credits.Over = true
	of := func(cost int64) *rule.Demand {
		d := asks(cost, window, credits)
		d.Limits.Pays = true
		return d
	}
	c.remember("a", of(3), []algo.Decision{rejected(2, second, 900), rejected(1, second, 500)}, 0, 0, RejectionTTLMicros)
	rejects, _ := c.find("a").about(of(3), 1, out)
	testenv.Same(t, "that the same cost is rejected", rejects, true)
	_, known := c.find("a").about(of(4), 1, out)
	testenv.Same(t, "that another one is known", known, false)
}

func TestForgetAndClear(t *testing.T) {
	t.Parallel()
	c := New(4, 1)
	out := make([]algo.Decision, 1)
	c.remember("a", asks(1, gcra), []algo.Decision{rejected(0, second, second)}, 0, 0, RejectionTTLMicros)
	c.Forget(0, []byte("a"))
	c.Forget(0, []byte("unknown"))
	if _, known := c.find("a").about(asks(1, gcra), 0, out); known {
		t.Error("what was forgotten is known")
	}
	c.Clear()
	if c.find("a") != nil {
		t.Error("what was cleared is there")
	}
}

// The caller says how long a rejection may be remembered.
func TestHold(t *testing.T) {
	t.Parallel()
	c, out := New(4, 1), make([]algo.Decision, 1)
	c.remember("a", asks(1, window), []algo.Decision{rejected(0, second, second)}, 0, 0, SharedTTLMicros)
	if rejects, _ := c.find("a").about(asks(1, window), SharedTTLMicros-1, out); !rejects {
		t.Error("forgotten before the ttl is over")
	}
	if _, known := c.find("a").about(asks(1, window), SharedTTLMicros, out); known {
		t.Error("remembered beyond the hold")
	}
}

// Sizes that come with the request: limits of another size are others, and each limit
// has its cost.
func TestSizesAndCosts(t *testing.T) {
	t.Parallel()
	limits := []algo.Limit{gcra, window}
	configured := []algo.Size{{Units: gcra.Units, Burst: gcra.Burst}, {Units: window.Units}}
	larger, burstier := slices.Clone(configured), slices.Clone(configured)
	larger[0].Units++
	burstier[0].Burst++
	for _, tc := range []struct {
		name  string
		then  []algo.Size // what the rejection was about; nil: as configured
		sizes []algo.Size
		costs []int64
		known bool
	}{
		{name: "the same", costs: []int64{3, 1}, known: true},
		{name: "as configured, by the request", sizes: configured, costs: []int64{3, 1}, known: true},
		{name: "another limit", sizes: larger, costs: []int64{3, 1}},
		{name: "another burst", sizes: burstier, costs: []int64{3, 1}},
		{name: "another limit then", then: larger, costs: []int64{3, 1}},
		{
			name: "the same, and not as configured", then: larger, sizes: larger, costs: []int64{3, 1},
			known: true,
		},
		{name: "a higher cost of the first", costs: []int64{4, 1}, known: true},
		{name: "a lower cost of the first", costs: []int64{2, 1}},
		{name: "none of the first", costs: []int64{0, 1}},
		{name: "a cost that the second allows", costs: []int64{3, 5}, known: true},
		{name: "a cost that the second may not allow", costs: []int64{3, 6}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := New(4, 1)
			decisions := []algo.Decision{rejected(0, second, 300_000), admitted(5, second)}
			then := asksEach(limits, tc.then, 3, 1)
			c.remember("a", then, decisions, 0, 0, RejectionTTLMicros)
			_, known := c.find("a").about(asksEach(limits, tc.sizes, tc.costs...), 1, make([]algo.Decision, 2))
			if known != tc.known {
				t.Errorf("known: %v, want %v", known, tc.known)
			}
		})
	}
}

// The wait of a higher cost is that of the limit as the request brings it: at twice the
// rate it is half as much longer.
func TestWaitBySize(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name  string
		units int64
		wait  int64
	}{
		{name: "as configured", units: gcra.Units, wait: 400_000},
		{name: "twice the limit", units: 2 * gcra.Units, wait: 350_000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := New(4, 1)
			asked := asksEach([]algo.Limit{gcra}, []algo.Size{{Units: tc.units, Burst: gcra.Burst}}, 3)
			c.remember("a", asked, []algo.Decision{rejected(0, second, 300_000)}, 0, 0, RejectionTTLMicros)
			asked.Costs = []int64{4}
			out := make([]algo.Decision, 1)
			_, known := c.find("a").about(asked, 0, out)
			if !known {
				t.Error("it is not known")
			}
			if got := out[0].RetryAfterMicros; got != tc.wait {
				t.Errorf("retry after %d us, want %d", got, tc.wait)
			}
		})
	}
}

// What is known of a calendar's window does not hold in the next one, even if the
// rejection does.
func TestCalendarWindow(t *testing.T) {
	t.Parallel()
	const ends = 7 * second // on the store's clock, which shows 5 s
	month := algo.Limit{Algorithm: algo.FixedWindow, Units: 10, WindowMicros: 3600 * second, CalendarID: "month:UTC:1"}
	never := rejected(10, 0, algo.Never)
	never.EndsMicros = ends
	beside := admitted(3, 2*second)
	beside.EndsMicros = ends
	for _, decisions := range [][]algo.Decision{
		{never, rejected(0, second, algo.Never)},
		{beside, rejected(0, 60*second, 60*second)},
	} {
		c := New(4, 1)
		asked, out := asks(3, month, window), make([]algo.Decision, 2)
		c.remember("a", asked, decisions, 100*second, 5*second, RejectionTTLMicros)
		for _, age := range []int64{2*second - 1, 2 * second} {
			if _, known := c.find("a").about(asked, 100*second+age, out); known != (age < 2*second) {
				t.Errorf("after %d us: known: %v", age, known)
			}
		}
	}
}

// A block holds for every cost and size, until it ends or the ttl is over, and takes
// the place of decisions.
func TestBlock(t *testing.T) {
	t.Parallel()
	const now = 100 * second
	for _, tc := range []struct {
		name      string
		left, age int64
		want      Block
		over      bool
	}{
		{name: "at once", left: 5 * second, want: Block{algo.ByPenalty, 5 * second}},
		{name: "later", left: second, age: TermsTTLMicros - 1, want: Block{algo.ByPenalty, 100_001}},
		{name: "the ttl is over", left: 5 * second, age: TermsTTLMicros, over: true},
		{name: "the block is over", left: 1000, age: 1000, over: true},
		{name: "without end", left: algo.Never, age: 1000, want: Block{algo.ByPenalty, algo.Never}},
	} {
		c := New(4, 1)
		c.remember("a", asks(3, window), []algo.Decision{rejected(0, second, second)}, now, 5, RejectionTTLMicros)
		c.RememberBlock(0, []byte("a"), Block{algo.ByPenalty, tc.left}, now, 7, TermsTTLMicros)
		e := c.find("a")
		got, lasts := e.Blocked(now + tc.age)
		testenv.Same(t, tc.name+": the block", Block{got.By, got.LeftMicros}, tc.want)
		if lasts {
			testenv.Same(t, tc.name+": the store's time of it", got.AtMicros, 7+tc.age)
		}
		testenv.Same(t, tc.name+": that it lasts", lasts, !tc.over)
		testenv.Same(t, tc.name+": the store's time", e.StoreMicros, 7)
		d := asks(3, window)
		ruling, known := e.Ruling(d, &d.Limits.Parts[0], now+tc.age, make([]algo.Decision, 1))
		testenv.Same(t, tc.name+": that it answers", known, lasts)
		testenv.Same(t, tc.name+": no decision stands beside it", ruling, got)
		c.remember("a", asks(3, window), []algo.Decision{rejected(0, second, second)}, now, 5, RejectionTTLMicros)
		if _, lasts := c.find("a").Blocked(now); lasts {
			t.Errorf("%s: a decision does not take its place", tc.name)
		}
	}
}

// What a store would say: a block, or the decisions of the limits, at the store's time.
func TestRuling(t *testing.T) {
	t.Parallel()
	const now, age = 100 * second, 1000
	for _, tc := range []struct {
		name     string
		remember func(*Cache)
		cost     int64
		want     algo.Ruling
		unknown  bool
	}{
		{
			name: "a rejection", cost: 3, want: algo.Ruling{AtMicros: 7 + age},
			remember: func(c *Cache) {
				c.remember("a", asks(3, window), []algo.Decision{rejected(0, second, second)},
					now, 7, RejectionTTLMicros)
			},
		},
		{
			name: "admitted beside one", cost: 3, want: algo.Ruling{AtMicros: 7 + age, Allowed: true},
			remember: func(c *Cache) {
				c.remember("a", asks(3, window), []algo.Decision{admitted(5, second)},
					now, 7, RejectionTTLMicros)
			},
		},
		{
			name: "a block", cost: 3, want: algo.Ruling{AtMicros: 7 + age, By: algo.ByPenalty, LeftMicros: second - age},
			remember: func(c *Cache) {
				c.RememberBlock(0, []byte("a"), Block{algo.ByPenalty, second}, now, 7, TermsTTLMicros)
			},
		},
		{
			name: "a lower cost", cost: 2, unknown: true,
			remember: func(c *Cache) {
				c.remember("a", asks(3, window), []algo.Decision{rejected(0, second, second)},
					now, 7, RejectionTTLMicros)
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := New(4, 1)
			tc.remember(c)
			d := asks(tc.cost, window)
			r, known := c.find("a").Ruling(d, &d.Limits.Parts[0], now+age, make([]algo.Decision, 1))
			if known == tc.unknown {
				t.Fatalf("known: %v", known)
			}
			if known && r != tc.want {
				t.Errorf("%+v, want %+v", r, tc.want)
			}
		})
	}
}
