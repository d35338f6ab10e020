package algo

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

func TestNewPlanRefuses(t *testing.T) {
	t.Parallel()
	ok := Limit{Algorithm: GCRA, Units: 10, WindowMicros: 1e6}
	for _, c := range []struct {
		want   string // in the error's text
		change func(l *Limit)
	}{
		{"algorithm", func(l *Limit) { l.Algorithm = 0 }},
		{"algorithm", func(l *Limit) { l.Algorithm = endOfAlgorithms }},
		{"limit -1", func(l *Limit) { l.Units = -1 }},
		{"limit 1000000001", func(l *Limit) { l.Units = MaxUnits + 1 }},
		{"window in us 0", func(l *Limit) { l.WindowMicros = 0 }},
		{"window in us 31622400001000", func(l *Limit) { l.WindowMicros = MaxWindowMicros + 1000 }},
		{"whole milliseconds", func(l *Limit) { l.WindowMicros = 1001 }},
		{"burst -1", func(l *Limit) { l.Burst = -1 }},
		{"burst 1000000001", func(l *Limit) { l.Burst = MaxUnits + 1 }},
		{"100 years", func(l *Limit) { l.Units, l.WindowMicros, l.Burst = 1, MaxWindowMicros, 100 }},
		{"100 years", func(l *Limit) { l.Units, l.WindowMicros, l.Burst = 1, MaxWindowMicros, MaxUnits }},
		{"burst does not belong", func(l *Limit) { l.Algorithm, l.Burst = FixedWindow, 1 }},
		{"anchor does not belong", func(l *Limit) { l.FromFirstRequest = true }},
		{"sub_windows does not belong", func(l *Limit) { l.SubWindows = 2 }},
		{"sub_windows 61", func(l *Limit) { l.Algorithm, l.SubWindows = SlidingWindowCounter, 61 }},
		{"sub_windows -1", func(l *Limit) { l.Algorithm, l.SubWindows = SlidingWindowCounter, -1 }},
		{"3 sub_windows do not divide 1000 us", func(l *Limit) {
			l.Algorithm, l.SubWindows, l.WindowMicros = SlidingWindowCounter, 3, 1000
		}},
		{"overflow does not belong", func(l *Limit) { l.Algorithm, l.Queue = FixedWindow, true }},
		{"max_wait does not belong", func(l *Limit) { l.MaxDelayMicros = 1 }},
		{"refill does not belong", func(l *Limit) { l.Steps = true }},
		{"overflow does not belong to a token_bucket that is refilled in steps", func(l *Limit) {
			l.Algorithm, l.Steps, l.Queue, l.MaxDelayMicros = TokenBucket, true, true, 1e6
		}},
		{"100 years", func(l *Limit) {
			l.Algorithm, l.Steps, l.WindowMicros, l.Burst = TokenBucket, true, MaxWindowMicros, 1001
		}},
		{"max_delay does not belong", func(l *Limit) { l.Algorithm, l.MaxDelayMicros = LeakyBucket, 1 }},
		{"ttl in us 30000000", func(l *Limit) { l.TTLMicros = 30e6 }},
		{"ttl in us 0", func(l *Limit) { *l = Limit{Algorithm: Concurrency, Units: 1} }},
		{"ttl in us 3600000001", func(l *Limit) {
			*l = Limit{Algorithm: Concurrency, Units: 1, TTLMicros: MaxTTLMicros + 1}
		}},
		{"window in us 1000000", func(l *Limit) { l.Algorithm, l.TTLMicros = Concurrency, 5e6 }},
		{"max_delay in us -1", func(l *Limit) { l.Algorithm, l.Queue, l.MaxDelayMicros = LeakyBucket, true, -1 }},
	} {
		bad := ok
		c.change(&bad)
		if _, err := NewPlan([]Limit{ok, bad}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", bad, err, c.want)
		}
	}
	twin := ok
	twin.Units = 20
	if _, err := NewPlan([]Limit{ok, twin}); err == nil || !strings.Contains(err.Error(), "share a state") {
		t.Errorf("two limits of one key: %v", err)
	}
	if _, err := NewPlan(nil); err == nil {
		t.Error("a plan of no limits")
	}
}

// TestNewPlanAccepts the bounds themselves.
func TestNewPlanAccepts(t *testing.T) {
	t.Parallel()
	for a := FixedWindow; a <= GCRA; a++ {
		for _, units := range []int64{0, 1, MaxUnits} {
			for _, window := range []int64{MinWindowMicros, MaxWindowMicros} {
				mustPlan(t, Limit{Algorithm: a, Units: units, WindowMicros: window})
			}
		}
	}
	const year = 365.25 * 24 * 3600e6
	mustPlan(t, Limit{Algorithm: GCRA, Units: 1, WindowMicros: year, Burst: 100})
	mustPlan(t, Limit{Algorithm: SlidingWindowCounter, Units: 1, WindowMicros: 6e6, SubWindows: MaxSubWindows})
}

func TestRestoreMicros(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit Limit
		want  int64
	}{
		{Limit{Algorithm: FixedWindow, Units: 3, WindowMicros: 60e6}, 60e6},
		{Limit{Algorithm: GCRA, WindowMicros: 60e6, Burst: 5}, 60e6},
		{Limit{Algorithm: SlidingWindowCounter, Units: 3, WindowMicros: 60e6, SubWindows: 6}, 60e6},
		{Limit{Algorithm: GCRA, Units: 3, WindowMicros: 1e6}, 1e6},
		{Limit{Algorithm: GCRA, Units: 10, WindowMicros: 1e6, Burst: 20}, 2e6},
		{Limit{Algorithm: TokenBucket, Units: 3, WindowMicros: 1e6, Burst: 1}, 333334},
		{Limit{Algorithm: LeakyBucket, Units: 1, WindowMicros: MaxWindowMicros, Burst: MaxUnits}, math.MaxInt64},
		{Limit{Algorithm: LeakyBucket, Units: 7, WindowMicros: MaxWindowMicros, Burst: 1_000_000}, 4517485714285714286},
	} {
		if got := c.limit.RestoreMicros(); got != c.want {
			t.Errorf("%+v: %d, want %d", c.limit, got, c.want)
		}
	}
}

// TestDeniedChangesNoState, and neither does a cost of 0.
func TestDeniedChangesNoState(t *testing.T) {
	t.Parallel()
	r := newRandom(600)
	p := mustPlan(t, everyLimit...)
	states, out := make([]State, len(p.Limits())), make([]Decision, len(p.Limits()))
	now := int64(epoch)
	for range 2000 {
		before, cost := fmt.Sprint(states), r.cost(10)
		allowed := decide(p, states, now, cost, out)
		after := fmt.Sprint(states)
		if changed := after != before; changed != (allowed && cost > 0) {
			t.Fatalf("cost %d: allowed %v, changed %v: %s to %s", cost, allowed, changed, before, after)
		}
		now += r.span(0, 20e6)
	}
}

// TestNegativeCost: a cost below 0 counts as 0.
func TestNegativeCost(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, everyLimit...)
	states, out := make([]State, len(p.Limits())), make([]Decision, len(p.Limits()))
	decide(p, states, epoch, 4, out)
	before := fmt.Sprint(states)
	for _, cost := range []int64{-1, math.MinInt64} {
		what := fmt.Sprint("cost ", cost)
		testenv.Same(t, what+": that it is allowed", decide(p, states, epoch, cost, out), true)
		testenv.Same(t, what+": what remains", out[0].Remaining, 6)
		testenv.Same(t, what+": the states", fmt.Sprint(states), before)
	}
}

// TestRefundRestoresState: a charge and its refund at one instant change
// nothing.
func TestRefundRestoresState(t *testing.T) {
	t.Parallel()
	for a := FixedWindow; a <= GCRA; a++ {
		r := newRandom(700 + uint64(a))
		for range 300 {
			l := r.limit(a)
			p, states, out := mustPlan(t, l), make([]State, 1), make([]Decision, 1)
			now := epoch + r.Int64N(1e15)
			for range 20 {
				now += r.step(&l, out[0], now)
				cost := max(r.cost(l.Capacity()), 1)
				before := peek(p, states, now, 0)
				if decide(p, states, now, cost, out) {
					refund(p, states, now, now, cost)
				}
				if after := peek(p, states, now, 0); after != before {
					t.Fatalf("%+v: refund of %d at %d: %+v, was %+v", l, cost, now, after, before)
				}
				decide(p, states, now, r.cost(l.Capacity()), out)
			}
		}
	}
}

// TestRefundNeverExceedsCharge: after a refund, however long after the charge,
// no more is admitted than if the charge had never been.
func TestRefundNeverExceedsCharge(t *testing.T) {
	t.Parallel()
	for a := FixedWindow; a <= GCRA; a++ {
		r := newRandom(800 + uint64(a))
		for range 300 {
			l := r.limit(a)
			p, out := mustPlan(t, l), make([]Decision, 1)
			with, without := make([]State, 1), make([]State, 1)
			now := epoch + r.Int64N(1e15)
			half := max(l.Capacity()/2, 1)
			first := r.span(1, min(half, MaxCost))
			decide(p, with, now, first, out)
			decide(p, without, now, first, out)
			charge := r.span(1, min(half, MaxCost))
			charged := decide(p, with, now, charge, out)
			later := now + r.span(0, 2*l.WindowMicros)
			if charged {
				refund(p, with, now, later, charge)
			}
			got, want := peek(p, with, later, 0).Remaining, peek(p, without, later, 0).Remaining
			if got > want {
				t.Fatalf("%+v: %d and %d charged at %d, %d refunded at %d: remaining %d, want %d",
					l, first, charge, now, charge, later, got, want)
			}
		}
	}
}

// TestNoAllocations: a decision allocates nothing once its states have room.
func TestNoAllocations(t *testing.T) {
	p := mustPlan(t, everyLimit...)
	states, out := make([]State, len(p.Limits())), make([]Decision, len(p.Limits()))
	for i := range states {
		states[i] = make(State, 0, 64)
	}
	reply, costs := make([]int64, p.ReplyLen()), p.Each(1)
	owed := p.Each(-1)
	sizes, sized, arg := make([]Size, len(costs)), new(Plan), make([]byte, 0, 64)
	now := int64(epoch)
	if n := testing.AllocsPerRun(1000, func() {
		now += 3e6
		for i := range sizes {
			sizes[i].Units = 10 + now%7
		}
		q, _ := p.Sized(sized, sizes)
		q.Rebase(states, now)
		q.Decide(states, now, costs, out)
		q.Refund(states, now, now+1, costs)
		q.Refund(states, now, now+1, owed)
		q.Decide(states, now+2, costs, out)
		q.ParseReply(reply, out)
		arg = q.AppendArg(arg[:0], 5, 0)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzDecide: no state, time or cost, however wrong, makes it panic; and from
// good ones come decisions that make sense.
func FuzzDecide(f *testing.F) {
	f.Add(uint8(0), uint32(1), uint64(1), int64(1), int64(epoch), int64(5), int64(epoch-1), int64(3), int64(epoch))
	f.Add(uint8(2), uint32(5), uint64(1e3), int64(9), int64(math.MaxInt64), int64(math.MinInt64), int64(-1),
		int64(MaxCost), int64(math.MinInt64))
	f.Add(uint8(4), uint32(MaxUnits-1), uint64(MaxWindowMicros), int64(math.MinInt64), int64(0), int64(1), int64(2),
		int64(-7), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, which uint8, units uint32, window uint64, a, b, c, d, cost, now int64) {
		l := everyLimit[int(which)%len(everyLimit)]
		l.Units = 1 + int64(units)%MaxUnits
		l.WindowMicros = 1000 + int64(window%(MaxWindowMicros/1000))*1000
		p := mustPlan(t, l)
		numbers, out := []int64{a, b, c, d, a, c, b, d}, make([]Decision, 1)
		for n := range numbers {
			states := []State{slices.Clone(numbers[:n])}
			decide(p, states, now, cost, out)
			p.ExpiresAtMicros(0, states[0])
			refund(p, states, b, now, cost)
			refund(p, states, c, now, -cost)
			decide(p, states, d, cost, out)
		}
		states, at := make([]State, 1), epoch+now&(1<<48-1)
		for _, cost := range []int64{cost & 0xfffff, 1, l.Units, 0} {
			decide(p, states, at, cost, out)
			checkSense(t, &l, out[0])
			at += a & (1<<44 - 1)
		}
	})
}

func TestInUse(t *testing.T) {
	t.Parallel()
	of := func(capacity int64) Limit { return Limit{Algorithm: FixedWindow, Units: capacity, WindowMicros: 1e6} }
	for _, c := range []struct {
		limits    []Limit
		remaining []int64
		want      int64
	}{
		{[]Limit{of(10)}, []int64{10}, 0},
		{[]Limit{of(MaxUnits)}, []int64{MaxUnits - 1}, 1},
		{[]Limit{of(10)}, []int64{5}, 128},
		{[]Limit{of(10)}, []int64{0}, 255},
		{[]Limit{of(10), of(2), of(100)}, []int64{9, 1, 99}, 128},
	} {
		plan := Plan{limits: c.limits}
		out := make([]Decision, len(c.limits))
		for i, r := range c.remaining {
			out[i].Remaining = r
		}
		if got := plan.InUse(out, 255); got != c.want {
			t.Errorf("%v of %+v: %d, want %d", c.remaining, c.limits, got, c.want)
		}
	}
}
