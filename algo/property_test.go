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

// TestWindowsByDefinition: an attempt is admitted just when its window has room. As the window of a log ends
// with the attempt, no window anywhere holds more.
func TestWindowsByDefinition(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []Algorithm{FixedWindow, SlidingWindowLog} {
		t.Run(algorithm.String(), func(t *testing.T) {
			eachRandom(t, algorithm, func(l Limit, all []attempt) {
				var admitted []attempt
				start := int64(0) // of the window that the last charge was in
				for _, a := range all {
					from := start
					switch {
					case algorithm == SlidingWindowLog:
						from = a.at - l.WindowMicros + 1
					case a.at < start+l.WindowMicros:
					case l.FromFirstRequest:
						from = a.at
					default:
						from = a.at / l.WindowMicros * l.WindowMicros
					}
					used := sumCosts(admitted, from)
					if want := used+a.cost <= l.Units; a.Allowed != want {
						t.Errorf("%+v with %d in use: %+v", l, used, a)
					}
					if a.Allowed {
						admitted, used = append(admitted, a), used+a.cost
					}
					if a.Allowed && a.cost > 0 {
						start = from
					}
					if want := max(l.Units-used, 0); a.Remaining != want {
						t.Errorf("%+v: remaining %d, want %d", l, a.Remaining, want)
					}
				}
			})
		})
	}
}

// TestSlidingWindowCounterByDefinition: the sub-window partly outside counts by the part that is inside. That is
// exact where limit * size fits into half of what a double counts, else at most 2^-21 of a sub-window on the
// safe side.
func TestSlidingWindowCounterByDefinition(t *testing.T) {
	eachRandom(t, SlidingWindowCounter, func(l Limit, all []attempt) {
		size, slack, one := l.WindowMicros/max(l.SubWindows, 1), new(big.Rat), big.NewRat(1, 1)
		product := big.NewInt(size)
		if product.Mul(product, big.NewInt(l.Units)).Cmp(big.NewInt(1<<52)) > 0 {
			slack.SetFrac64(1, 1<<21)
		}
		var admitted []attempt
		for _, a := range all {
			start := a.at / size * size
			whole := sumCosts(admitted, start-l.WindowMicros+size)
			part := big.NewRat(sumCosts(admitted, start-l.WindowMicros)-whole, 1)
			room := big.NewRat(l.Units-whole-a.cost, 1) // for the part
			weight := big.NewRat(size-(a.at-start), size)
			least := new(big.Rat).Mul(weight, part)
			if a.Allowed && least.Cmp(room) > 0 {
				t.Errorf("%+v admitted %+v with %d + %s in use", l, a, whole, least.FloatString(9))
			}
			if weight.Add(weight, slack); weight.Cmp(one) > 0 {
				weight.Set(one)
			}
			if most := weight.Mul(weight, part); !a.Allowed && most.Cmp(room) <= 0 {
				t.Errorf("%+v denied %+v with %d + %s in use", l, a, whole, least.FloatString(9))
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

// take takes cost, of which others may have taken in advance, if it is there within mostDelay, and returns in
// how many whole microseconds it is.
func (b *exactBucket) take(at, cost, mostDelay int64) (delay int64) {
	b.tokens.Add(b.tokens, new(big.Int).Mul(big.NewInt(at-b.at), b.rate))
	if b.tokens.Cmp(b.capacity) > 0 {
		b.tokens.Set(b.capacity)
	}
	b.at = at
	left := new(big.Int).Sub(b.tokens, new(big.Int).Mul(big.NewInt(cost), b.window))
	if left.Sign() < 0 { // the wait is rounded up
		short := new(big.Int).Neg(left)
		delay = short.Add(short, b.rate).Sub(short, big.NewInt(1)).Div(short, b.rate).Int64()
	}
	if delay <= mostDelay {
		b.tokens = left
	}
	return delay
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
					if a.Allowed && exact.take(a.at, a.cost, 0) > 0 {
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
				if exact.take(epoch+i*pause, cost, 0) == 0 {
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
