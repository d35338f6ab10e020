package algo

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// buckets are the algorithms that share their arithmetic.
var buckets = []Algorithm{TokenBucket, LeakyBucket, GCRA}

// change is one of a bucket's size between two requests, with a pause in us.
type change struct {
	name                                 string
	before                               Size
	charged, pause                       int64
	after                                Size
	cost                                 int64
	wantRemaining, wantRetry, wantBefore int64
}

var changes = []change{
	{"a raised rate", Size{Units: 10, Burst: 600}, 600, 0, Size{Units: 600, Burst: 600}, 1, 0, 0.1e6, 60e6},
	{"a lowered rate", Size{Units: 600, Burst: 600}, 60, 0, Size{Units: 60, Burst: 600}, 541, 540, 1e6, 60e6},
	{"a raised limit", Size{Units: 10}, 10, 0, Size{Units: 100}, 91, 90, 0.6e6, 6e6},
	{"a lowered limit holds its own capacity at most", Size{Units: 1000}, 1000, 0, Size{Units: 10}, 1, 0, 6e6, 60e6},
	{"and drains from when it was charged", Size{Units: 1000}, 1000, 12e6, Size{Units: 10}, 3, 2, 6e6, 48e6},
	{"a lowered burst", Size{Units: 10, Burst: 100}, 100, 0, Size{Units: 10, Burst: 5}, 1, 0, 6e6, 30e6},
	{
		"another tick of the clock",
		Size{Units: MaxUnits, Burst: MaxUnits},
		MaxCost, 0,
		Size{Units: 60, Burst: MaxCost},
		1, 0, 1e6, MaxCost * 1e6,
	},
	{"to 0", Size{Units: 10}, 5, 0, Size{}, 1, 0, Never, 0},
}

// stepChanges are those of a bucket that is refilled in steps, 10 s after a step of a minute.
var stepChanges = []change{
	{"a raised limit goes on with the units", Size{Units: 10}, 10, 0, Size{Units: 100}, 91, 90, 50e6, 50e6},
	{"a lowered limit holds its own capacity at most", Size{Units: 1000}, 1000, 0, Size{Units: 10}, 1, 0, 50e6, 50e6},
	{
		"its own steps bring them back",
		Size{Units: 600, Burst: 600},
		60, 60e6,
		Size{Units: 20, Burst: 600},
		570, 560, 50e6, 110e6,
	},
	{"a lowered burst", Size{Units: 10, Burst: 100}, 100, 0, Size{Units: 10, Burst: 5}, 1, 0, 50e6, 50e6},
	{"to 0", Size{Units: 10}, 5, 0, Size{Units: 0}, 1, 0, Never, 0},
	{"within a step nothing comes", Size{Units: 10}, 10, 49_999_999, Size{Units: 10}, 1, 0, 1, 1},
	{"with the step all comes", Size{Units: 10}, 10, 50e6, Size{Units: 10}, 11, 10, Never, 0},
}

// TestChangedBucketGoesOnInUnits: what a bucket has in use are units, whatever
// limit and burst the next request has.
func TestChangedBucketGoesOnInUnits(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for _, kind := range []struct {
		limit   Limit
		at      int64
		changes []change
	}{
		{Limit{Algorithm: TokenBucket}, epoch, changes},
		{Limit{Algorithm: LeakyBucket}, epoch, changes},
		{Limit{Algorithm: GCRA}, epoch, changes},
		{Limit{Algorithm: TokenBucket, Steps: true}, epoch + 10e6, stepChanges},
	} {
		for _, c := range kind.changes {
			limit := kind.limit
			limit.Units, limit.Burst, limit.WindowMicros = c.before.Units, c.before.Burst, 60e6
			what := fmt.Sprintf("%s/%s, in steps: %v: ", c.name, limit.Algorithm, limit.Steps)
			plain := mustPlan(t, limit)
			w := newTwins(t, onRedis(client), plain, what)
			_, allowed := w.decide(t, kind.at, c.charged)
			testenv.Same(t, what+"that the charge is allowed", allowed, true)
			w.Plan, _ = plain.Sized(new(Plan), []Size{c.after})
			out, _ := w.decide(t, kind.at+c.pause, c.cost)
			testenv.Same(t, what+"what remains", out[0].Remaining, c.wantRemaining)
			testenv.Same(t, what+"the wait", out[0].RetryAfterMicros, c.wantRetry)
			testenv.Same(t, what+"the reset before", out[0].ResetBeforeMicros, c.wantBefore)
		}
	}
}

// TestRefundAfterAChange gives back the units that were charged, not their time.
func TestRefundAfterAChange(t *testing.T) {
	t.Parallel()
	for _, a := range buckets {
		plain := mustPlan(t, Limit{Algorithm: a, Units: 10, WindowMicros: 60e6})
		states, out := make([]State, 1), make([]Decision, 1)
		decide(plain, states, epoch, 8, out)
		raised, _ := plain.Sized(new(Plan), []Size{{Units: 100}})
		refund(raised, states, epoch, epoch, 5)
		decide(raised, states, epoch, 0, out)
		if got, want := out[0].Remaining, int64(97); got != want {
			t.Errorf("%s: remaining %d, want %d", a, got, want)
		}
	}
}

// TestRefundOfASmallerSize gives its own units back alone: those that a larger size has charged still
// count for it, and so does what is owed.
func TestRefundOfASmallerSize(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	const large, small = 500, 10
	for _, c := range []struct {
		name                 string
		changes              int64 // of the small size's charge of 1; below 0: it owes more
		wantLarge, wantSmall int64
	}{
		{name: "refund", changes: 1, wantLarge: 1, wantSmall: 0},
		{name: "debit", changes: -4, wantLarge: 0, wantSmall: 0},
	} {
		for i, limit := range everyLimit {
			changes := limit.Algorithm.HasBurst() && limit.LeaseMicros == 0 && (!limit.Queue || c.changes > 0)
			if !changes {
				continue
			}
			t.Run(fmt.Sprintf("%s/%d-%s", c.name, i, limit.Algorithm), func(t *testing.T) {
				t.Parallel()
				limit.WindowMicros, limit.Units, limit.Burst = 3600e6, small, 0
				plain := mustPlan(t, limit)
				w := newTwins(t, onRedis(client), plain, t.Name())
				remaining := func(units, cost int64) int64 {
					w.Plan, _ = plain.Sized(new(Plan), []Size{{Units: units}})
					out, _ := w.decide(t, epoch, cost)
					return out[0].Remaining
				}
				remaining(small, 1)
				testenv.Same(t, "what remains of the large size", remaining(large, large-1), 0)
				w.Plan = plain
				w.refund(t, epoch, epoch, c.changes)
				testenv.Same(t, "what remains of the large size then", remaining(large, 0), c.wantLarge)
				testenv.Same(t, "what remains of the small size then", remaining(small, 0), c.wantSmall)
			})
		}
	}
}

// TestChargeOfASmallerSize counts anew what the smaller size has read, clamped to its capacity, so that a
// larger size has the rest again. One number cannot be both: were the units beyond the capacity kept, the
// smaller size would read its whole capacity as used after each charge, and not what it has just been told.
func TestChargeOfASmallerSize(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	const large, small, window = 500, 10, 3600e6
	for _, a := range buckets {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			plain := mustPlan(t, Limit{Algorithm: a, Units: small, WindowMicros: window})
			w := newTwins(t, onRedis(client), plain, t.Name())
			remaining := func(units, atMicros, cost int64) int64 {
				w.Plan, _ = plain.Sized(new(Plan), []Size{{Units: units}})
				out, allowed := w.decide(t, atMicros, cost)
				testenv.Same(t, "that it is allowed", allowed, true)
				return out[0].Remaining
			}
			testenv.Same(t, "the large size, full", remaining(large, epoch, large), 0)
			testenv.Same(t, "the small size", remaining(small, epoch, 0), 0)
			const later = epoch + window/2
			testenv.Same(t, "what a look reads of the large size then", remaining(large, later, 0), large/2)
			testenv.Same(t, "the small size then, and charged", remaining(small, later, 1), small/2-1)
			testenv.Same(t, "the small size as it was told", remaining(small, later, 0), small/2-1)
			testenv.Same(t, "the large size has the rest", remaining(large, later, 0), large-small/2-1)
		})
	}
}

// TestChangesForgetNothing: whatever sizes charge, a refund makes none that drains as fast as they do
// room for more than its units, and a debit makes none.
func TestChangesForgetNothing(t *testing.T) {
	t.Parallel()
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			r := newRandom(1100 + uint64(a))
			for n := range 400 {
				l := r.limit(a)
				if n%4 == 0 && a.HasBurst() {
					l = r.limit(a, r.lease)
				}
				plain, states, now := mustPlan(t, l), make([]State, 1), epoch+r.Int64N(1e15)
				out := make([]Decision, 1)
				for range 60 {
					size, seen := r.size(&l), r.size(&l)
					if l.LeaseMicros > 0 { // of what was lent, each rate has drained other units
						size.Units, seen.Units = l.Units, l.Units
					}
					own, _ := plain.Sized(new(Plan), []Size{size})
					if own == nil {
						continue
					}
					decide(own, states, now, r.cost(own.Limits()[0].Capacity()), out)
					charged := now
					now += r.span(0, max(l.WindowMicros, l.TTLMicros)/4)
					seen.Units = max(seen.Units, size.Units)
					if hasRate := l.Algorithm.HasBurst() && !l.Steps; hasRate && len(states[0]) > 0 {
						seen.Units = max(seen.Units, states[0][bucketLimit])
					}
					other, _ := plain.Sized(new(Plan), []Size{seen})
					if other == nil {
						continue
					}
					gives := r.cost(own.Limits()[0].Capacity())
					if r.oneIn(3) {
						gives = -gives
					}
					before := peek(other, states, now, 0).Remaining
					refund(own, states, charged, now, gives)
					after := peek(other, states, now, 0).Remaining
					const rounds = 1
					if after > before+max(gives, 0)+rounds {
						t.Fatalf("%+v changes by %d at %d: %+v has room for %d, and had for %d before; state %v",
							own.Limits()[0], gives, now, other.Limits()[0], after, before, states[0])
					}
					now += r.step(&l, out[0], now)
				}
			}
		})
	}
}

// TestNoWaitIsLongerThanTheLimitNeeds: whatever limits came before, and
// wherever the clock has been, a full capacity is back when this limit has
// restored it, and so is every cost within it.
func TestNoWaitIsLongerThanTheLimitNeeds(t *testing.T) {
	t.Parallel()
	for a := FixedWindow; a <= GCRA; a++ { // the others do not say who gives back what
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			r := newRandom(1000 + uint64(a))
			for n := range 300 {
				l := r.limit(a)
				if n%3 == 0 && a.HasBurst() {
					l = r.limit(a, r.lease)
				}
				plain, states, out := mustPlan(t, l), make([]State, 1), make([]Decision, 1)
				now := epoch + r.Int64N(1e15)
				for range 60 {
					sized, ok := plain.Sized(new(Plan), []Size{r.size(&l)})
					if !ok {
						t.Fatal("out of bounds")
					}
					limit := &sized.Limits()[0]
					jump := int64(0)
					if r.oneIn(8) {
						jump = r.span(1, 10*MaxWindowMicros)
					}
					decide(sized, states, now+jump, r.cost(limit.Capacity()), out)
					cost := max(r.cost(limit.Capacity()), 1)
					if !decide(sized, states, now, cost, out) && cost <= limit.Capacity() {
						wait := out[0].RetryAfterMicros
						restore := limit.RestoreMicros()
						longest := restore + restore/1024 + 1 + 2*limit.LeaseMicros // intervals are rounded up
						if limit.Algorithm == SlidingWindowCounter {
							longest = limit.WindowMicros + limit.WindowMicros/max(limit.SubWindows, 1)
						}
						if wait < 1 || wait > longest {
							t.Fatalf("%+v: cost %d waits %d us, want at most %d; state %v at %d", *limit, cost, wait, longest, states, now)
						}
						if !peek(sized, states, now+wait, cost).Allowed {
							t.Fatalf("%+v: cost %d is not admitted after %d us; state %v at %d", *limit, cost, wait, states, now)
						}
					}
					now += r.step(&l, out[0], now)
				}
			}
		})
	}
}

// TestClockThatWasAhead: a clock that was a year ahead for a moment locks no client
// out, and what was charged in that moment still counts.
func TestClockThatWasAhead(t *testing.T) {
	t.Parallel()
	const year = 365 * 86400e6
	client := startRedis(t)
	for i, limit := range everyLimit {
		t.Run(fmt.Sprintf("%d-%s", i, limit.Algorithm), func(t *testing.T) {
			t.Parallel()
			w, longest := newTwins(t, onRedis(client), mustPlan(t, limit), t.Name()), 2*limit.WindowMicros
			w.decide(t, epoch+year, 7)
			out, _ := w.decide(t, epoch, 5)
			if limit.Algorithm != SlidingWindowCounter && out[0].Remaining == 10 {
				t.Fatalf("what was charged ahead does not count: %+v", out[0])
			}
			testenv.Within(t, "the wait after the clock was set back", out[0].RetryAfterMicros, 0, longest)
			out, allowed := w.decide(t, epoch+longest, 10)
			testenv.Same(t, fmt.Sprintf("that it is allowed two windows later, %+v,", out[0]), allowed, true)
			w.expire(t, func(ms []int64) {
				testenv.Within(t, "the key's expiry in ms", ms[0], 0, (epoch+2*longest)/1000)
			})
		})
	}
}
