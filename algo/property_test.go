package algo

import (
	"math/big"
	"slices"
	"testing"
)

// What follows holds each algorithm against its definition, written down anew
// and independently of both twins.

// attempt is one decision of a sequence.
type attempt struct {
	at, cost int64
	Decision
}

// attempts makes random decisions of one limit on a clock that goes forward.
func (r random) attempts(t *testing.T, l Limit, n int) []attempt {
	t.Helper()
	p, states, out := mustPlan(t, l), make([]State, 1), make([]Decision, 1)
	now := epoch + r.Int64N(1e15)
	all := make([]attempt, n)
	for i := range all {
		now += r.step(&l, out[0], now)
		cost := r.cost(l.Capacity())
		decide(p, states, now, cost, out)
		all[i] = attempt{now, cost, out[0]}
	}
	return all
}

// eachRandom calls check with random limits of an algorithm and the attempts
// made of them.
func eachRandom(t *testing.T, a Algorithm, check func(l Limit, all []attempt)) {
	t.Helper()
	t.Parallel()
	r := newRandom(100 + uint64(a))
	for range 200 {
		l := r.limit(a)
		check(l, r.attempts(t, l, 150))
		if t.Failed() {
			t.FailNow()
		}
	}
}

// sumCosts adds up what was admitted from a time on.
func sumCosts(admitted []attempt, from int64) (sum int64) {
	for _, a := range slices.Backward(admitted) {
		if a.at < from {
			break
		}
		sum += a.cost
	}
	return sum
}

// admits checks every attempt against a definition: used returns how many of
// the units admitted before it count at the attempt's time.
func admits(t *testing.T, l Limit, all []attempt, used func(admitted []attempt, now int64) int64) {
	t.Helper()
	var admitted []attempt
	for _, a := range all {
		count := used(admitted, a.at)
		if want := count+a.cost <= l.Units; a.Allowed != want {
			t.Errorf("%+v with %d in use: %+v", l, count, a)
		}
		if a.Allowed {
			admitted = append(admitted, a)
			count += a.cost
		}
		if want := max(l.Units-count, 0); a.Remaining != want {
			t.Errorf("%+v: remaining %d, want %d", l, a.Remaining, want)
		}
	}
}

func TestFixedWindowByDefinition(t *testing.T) {
	eachRandom(t, FixedWindow, func(l Limit, all []attempt) {
		start := int64(0) // of the window that the last admitted request was in
		admits(t, l, all, func(admitted []attempt, now int64) int64 {
			for _, a := range admitted {
				switch {
				case a.cost == 0 || a.at < start+l.WindowMicros:
				case l.FromFirstRequest:
					start = a.at
				default:
					start = a.at / l.WindowMicros * l.WindowMicros
				}
			}
			if now >= start+l.WindowMicros {
				return 0
			}
			return sumCosts(admitted, start)
		})
	})
}

// TestSlidingWindowLogByDefinition: as an attempt is admitted just when the
// window that ends with it has room, no window anywhere holds more.
func TestSlidingWindowLogByDefinition(t *testing.T) {
	eachRandom(t, SlidingWindowLog, func(l Limit, all []attempt) {
		admits(t, l, all, func(admitted []attempt, now int64) int64 {
			return sumCosts(admitted, now-l.WindowMicros+1)
		})
	})
}

// weightedSum is the units that count at a time, as a fraction, with the weight
// of the sub-window partly outside rounded up by at most slack.
func weightedSum(l Limit, admitted []attempt, now int64, slack *big.Rat) *big.Rat {
	size := l.WindowMicros / max(l.SubWindows, 1)
	start := now / size * size
	whole := sumCosts(admitted, start-l.WindowMicros+size)
	part := sumCosts(admitted, start-l.WindowMicros) - whole
	weight := big.NewRat(size-(now-start), size)
	if weight.Add(weight, slack); weight.Cmp(big.NewRat(1, 1)) > 0 {
		weight.SetInt64(1)
	}
	sum := weight.Mul(weight, big.NewRat(part, 1))
	return sum.Add(sum, big.NewRat(whole, 1))
}

// TestSlidingWindowCounterByDefinition: exact where limit * size fits into half
// of what a double counts, else at most 2^-21 of a sub-window on the safe side.
func TestSlidingWindowCounterByDefinition(t *testing.T) {
	eachRandom(t, SlidingWindowCounter, func(l Limit, all []attempt) {
		slack := new(big.Rat)
		size := big.NewInt(l.WindowMicros / max(l.SubWindows, 1))
		if size.Mul(size, big.NewInt(l.Units)).Cmp(big.NewInt(1<<52)) > 0 {
			slack.SetFrac64(1, 1<<21)
		}
		var admitted []attempt
		for _, a := range all {
			cost, limit := big.NewRat(a.cost, 1), big.NewRat(l.Units, 1)
			least := weightedSum(l, admitted, a.at, new(big.Rat))
			if a.Allowed && new(big.Rat).Add(least, cost).Cmp(limit) > 0 {
				t.Errorf("%+v admitted %+v with %s in use", l, a, least.FloatString(9))
			}
			most := weightedSum(l, admitted, a.at, slack)
			if !a.Allowed && most.Add(most, cost).Cmp(limit) <= 0 {
				t.Errorf("%+v denied %+v with %s in use", l, a, least.FloatString(9))
			}
			if a.Allowed {
				admitted = append(admitted, a)
			}
		}
	})
}

// exactBucket is a token bucket without rounding: it counts in 1/window of a
// token, of which limit are added each microsecond.
type exactBucket struct {
	window, rate, capacity, tokens *big.Int
	at                             int64
}

func newExactBucket(l Limit, at int64) *exactBucket {
	window := big.NewInt(l.WindowMicros)
	capacity := new(big.Int).Mul(window, big.NewInt(l.Capacity()))
	return &exactBucket{window, big.NewInt(l.Units), capacity, new(big.Int).Set(capacity), at}
}

// fill brings what time restores until then.
func (b *exactBucket) fill(at int64) {
	b.tokens.Add(b.tokens, new(big.Int).Mul(big.NewInt(at-b.at), b.rate))
	if b.tokens.Cmp(b.capacity) > 0 {
		b.tokens.Set(b.capacity)
	}
	b.at = at
}

// take takes cost and reports whether it was there.
func (b *exactBucket) take(at, cost int64) bool {
	b.fill(at)
	left := new(big.Int).Sub(b.tokens, new(big.Int).Mul(big.NewInt(cost), b.window))
	if left.Sign() < 0 {
		return false
	}
	b.tokens = left
	return true
}

// TestBucketsByDefinition: what a bucket admits an exact one admits too, so that
// over no time t it is more than burst + rate * t.
func TestBucketsByDefinition(t *testing.T) {
	t.Parallel()
	for _, a := range []Algorithm{TokenBucket, LeakyBucket, GCRA} {
		t.Run(a.String(), func(t *testing.T) {
			eachRandom(t, a, func(l Limit, all []attempt) {
				if waits := l.Queue && a != LeakyBucket; l.Steps || waits {
					return // by another definition
				}
				exact := newExactBucket(l, all[0].at)
				for _, a := range all {
					if a.Allowed && !exact.take(a.at, a.cost) {
						t.Errorf("%+v admitted %+v, an exact bucket has %s / %d", l, a, exact.tokens, l.WindowMicros)
					}
				}
			})
		})
	}
}

// TestBucketsUnderSaturation: of one and the same flood of requests a bucket
// admits at most 0.2 % less than an exact one, whatever its limit.
func TestBucketsUnderSaturation(t *testing.T) {
	t.Parallel()
	r := newRandom(200)
	for _, a := range []Algorithm{TokenBucket, LeakyBucket, GCRA} {
		for range 100 {
			l := r.limit(a)
			l.Queue, l.MaxDelayMicros, l.Steps = false, 0, false
			cost := min(r.span(1, l.Capacity()), MaxCost)
			pause := ceilDiv(cost*l.WindowMicros, l.Units) // at least as fast as the cost is restored
			pause = max(1, pause/(1+r.Int64N(3)))
			const requests = 2000
			p, states, out := mustPlan(t, l), make([]State, 1), make([]Decision, 1)
			exact := newExactBucket(l, epoch)
			var got, want int64
			for i := range int64(requests) {
				if decide(p, states, epoch+i*pause, cost, out) {
					got++
				}
				if exact.take(epoch+i*pause, cost) {
					want++
				}
			}
			if got > want || float64(got) < 0.998*float64(want)-1 {
				t.Errorf("%+v admitted %d times %d, every %d us; an exact bucket %d times", l, got, cost, pause, want)
			}
		}
	}
}

// TestQueueByDefinition: departures are evenly spaced, whatever the arrivals,
// and no request waits unless another is before it.
func TestQueueByDefinition(t *testing.T) {
	eachRandom(t, LeakyBucket, func(l Limit, _ []attempt) {
		l.Queue, l.MaxDelayMicros = true, min(l.RestoreMicros(), MaxWindowMicros)
		interval := float64(l.WindowMicros) / float64(l.Units)
		var last attempt // of those that leave
		for _, a := range newRandom(uint64(l.Units)).attempts(t, l, 150) {
			if !a.Allowed || a.cost == 0 {
				continue
			}
			// Times are whole microseconds, rounded up, and intervals are rounded
			// up by a part in 1024.
			spacing := float64(last.cost) * interval
			gap := float64(a.at + a.DelayMicros - last.at - last.DelayMicros)
			if gap <= spacing*(1-1e-12)-1 {
				t.Errorf("%+v: %+v leaves %f us after %+v", l, a, gap, last)
			}
			if a.DelayMicros > 0 && gap >= spacing*(1+1./1024)+1 {
				t.Errorf("%+v: %+v waits, %f us after %+v", l, a, gap, last)
			}
			if a.DelayMicros > l.MaxDelayMicros {
				t.Errorf("%+v: %+v is delayed too long", l, a)
			}
			last = a
		}
	})
}
