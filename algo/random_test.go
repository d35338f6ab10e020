package algo

import (
	"math"
	"math/rand/v2"
)

// random draws what the tests replay. A seed makes a test repeatable.
type random struct{ *rand.Rand }

func newRandom(seed uint64) random {
	return random{rand.New(rand.NewPCG(seed, 0))}
}

// span draws from low to high, small numbers as often as large ones.
func (r random) span(low, high int64) int64 {
	bits := r.Float64() * math.Log2(float64(high-low+1))
	return min(low+int64(math.Exp2(bits))-1, high)
}

// oneIn is true once in n times.
func (r random) oneIn(n int) bool { return r.IntN(n) == 0 }

// limit draws a valid limit of an algorithm, with changes.
func (r random) limit(a Algorithm, changes ...func(*Limit)) Limit {
	for {
		l := Limit{
			Algorithm:    a,
			Units:        r.span(1, MaxUnits),
			WindowMicros: r.span(MinWindowMicros/1000, MaxWindowMicros/1000) * 1000,
		}
		if r.oneIn(2) { // round numbers, as people configure them
			l.Units = r.span(1, 1000)
			l.WindowMicros = []int64{1e3, 100e3, 1e6, 10e6, 60e6, 3600e6, 86400e6}[r.IntN(7)]
		}
		if a.HasBurst() && r.oneIn(2) {
			l.Burst = r.span(1, MaxUnits)
		}
		switch a {
		case FixedWindow:
			l.FromFirstRequest = r.oneIn(2)
		case SlidingWindowLog:
			l.Units = r.span(1, 300)
		case SlidingWindowCounter:
			l.SubWindows = []int64{0, 1, 2, 3, 5, 10, 12, 60}[r.IntN(8)]
		case Concurrency:
			l.WindowMicros, l.TTLMicros = 0, r.span(MinTTLMicros, MaxTTLMicros)
		case TokenBucket, LeakyBucket, GCRA:
			switch r.IntN(4) {
			case 0:
				l.Steps = a == TokenBucket
			case 1, 2:
				if l.Queue = a == LeakyBucket || r.oneIn(2); l.Queue {
					l.MaxDelayMicros = r.span(0, MaxWindowMicros)
				}
			}
		}
		for _, change := range changes {
			change(&l)
		}
		if l.validate() == nil {
			return l
		}
	}
}

// lease makes a bucket one of which workers take batches.
func (r random) lease(l *Limit) { l.LeaseMicros = r.span(1, l.WindowMicros) }

// class gives some limits classes.
func (r random) class(l *Limit) {
	if !l.Queue && r.oneIn(3) {
		l.Ceiling = r.span(1, MaxCeiling)
	}
}

// wait has the burst go at once while the rest waits.
func (r random) wait(l *Limit) { l.Steps, l.Queue, l.MaxDelayMicros = false, true, r.span(1000, 60e6) }

// cost draws a cost for limits of which the least admits capacity at once.
func (r random) cost(capacity int64) int64 {
	capacity = max(min(capacity, MaxCost-1), 1)
	switch r.IntN(10) {
	case 0:
		return 0
	case 1:
		return capacity
	case 2:
		return capacity + 1
	case 3, 4, 5:
		return r.span(1, capacity)
	case 6:
		return max(capacity/3, 1)
	default:
		return 1
	}
}

// step draws how far the clock goes on, from the times at which something
// happens to the limit, and their neighbours.
func (r random) step(l *Limit, last Decision, nowMicros int64) int64 {
	window := max(l.WindowMicros, l.TTLMicros)
	size := window / max(l.SubWindows, 1)
	micros := []int64{
		0, 0, 1, last.RetryAfterMicros, last.ResetAfterMicros, last.ResetAfterMicros / 2,
		window, size, size - nowMicros%size, ceilDiv(window, max(l.Units, 1)),
		r.span(0, 2*window), r.span(0, size),
	}[r.IntN(12)]
	return max(micros+int64(r.IntN(5)/2-1), 0) // -1 to 1
}

// size draws another limit and burst, often near the limit's own, within bounds.
func (r random) size(l *Limit) Size {
	for {
		other := *l
		switch r.IntN(8) {
		case 0: // its own
		case 1:
			other.Units = 0
		case 2, 3:
			other.Units = min(max(l.Units*r.span(1, 20)/r.span(1, 20), 1), MaxUnits)
		case 4:
			other.Units = r.span(1, MaxUnits)
		default:
			other.Units = r.span(1, 2*min(l.Units, MaxUnits/2))
		}
		if l.Algorithm.HasBurst() && r.oneIn(2) {
			other.Burst = []int64{0, 1, l.Burst, r.span(1, MaxUnits), r.span(1, 100)}[r.IntN(5)]
		}
		if other.sizeIsValid() {
			size := Size{Units: other.Units, Burst: other.Burst}
			if l.Ceiling > 0 {
				size.Ceiling = r.span(1, MaxCeiling)
			}
			return size
		}
	}
}

// difference draws what a cost is less than was charged, or, below 0, more.
func (r random) difference(cost, capacity int64) int64 {
	switch r.IntN(6) {
	case 0:
		return -r.span(1, MaxCost)
	case 1:
		return -min(2*max(capacity, 1), MaxCost)
	case 2, 3:
		return -r.cost(capacity)
	case 4:
		return -1
	default:
		return r.Int64N(cost + 1)
	}
}
