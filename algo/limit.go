// Package algo holds the rate limiting algorithms. Each has a Lua script, which
// Redis runs atomically, and a Go twin, which the embedded store runs and which
// the tests hold against the Lua to the microsecond.
package algo

import (
	"math"
	"math/bits"
)

// Algorithm names one of the six algorithms. The zero value is none of them.
type Algorithm uint8

// The algorithms, in the order of the documentation.
const (
	FixedWindow Algorithm = iota + 1
	SlidingWindowLog
	SlidingWindowCounter
	TokenBucket
	LeakyBucket
	GCRA
)

var names = [...]string{
	FixedWindow:          "fixed_window",
	SlidingWindowLog:     "sliding_window_log",
	SlidingWindowCounter: "sliding_window_counter",
	TokenBucket:          "token_bucket",
	LeakyBucket:          "leaky_bucket",
	GCRA:                 "gcra",
}

// String is the algorithm's name in configurations and in Redis keys.
func (a Algorithm) String() string {
	if int(a) < len(names) && names[a] != "" {
		return names[a]
	}
	return "unknown"
}

// HasBurst says whether the algorithm's capacity is its burst, not its limit.
func (a Algorithm) HasBurst() bool {
	return a == TokenBucket || a == LeakyBucket || a == GCRA
}

// ParseAlgorithm finds the algorithm of a name, and says whether there is one.
func ParseAlgorithm(name string) (Algorithm, bool) {
	for a, n := range names {
		if n == name && n != "" {
			return Algorithm(a), true
		}
	}
	return 0, false
}

// Bounds of a Limit's fields and of a cost. All are inclusive.
const (
	MaxUnits        = 1_000_000_000
	MinWindowMicros = 1_000                 // 1 ms
	MaxWindowMicros = 366 * 24 * 3600 * 1e6 // 366 days
	MaxCost         = 1_000_000
	MaxSubWindows   = 60
)

// Limit is one limit of a rule: Units in each window of WindowMicros.
type Limit struct {
	Algorithm Algorithm

	// Units is the configuration's "limit": what a window admits, 1 to MaxUnits.
	Units int64
	// WindowMicros is a whole number of milliseconds, in microseconds.
	WindowMicros int64
	// Burst is the capacity of token_bucket, leaky_bucket and gcra, 1 to
	// MaxUnits; 0 stands for Units. It is 0 for the other algorithms.
	Burst int64
	// FromFirstRequest starts a fixed window with its first request; otherwise
	// windows are aligned to the Unix epoch.
	FromFirstRequest bool
	// SubWindows is how many parts of a window the sliding_window_counter
	// counts apart, 1 to MaxSubWindows; 0 stands for 1.
	SubWindows int64
	// Queue makes a leaky_bucket delay what it admits, so that requests leave
	// evenly; otherwise it is a meter.
	Queue bool
	// MaxDelayMicros is the longest delay of a Queue: what would wait longer is
	// rejected.
	MaxDelayMicros int64
}

// Capacity is the most units that can be admitted at one instant.
func (l *Limit) Capacity() int64 {
	if l.Algorithm.HasBurst() && l.Burst > 0 {
		return l.Burst
	}
	return l.Units
}

// Never is the RetryAfterMicros of a cost above the capacity: no wait helps.
const Never = -1

// Decision is what one limit says of one request.
type Decision struct {
	// Allowed is whether this limit admits the request's cost.
	Allowed bool
	// Remaining is how many whole units could still be admitted at once: after
	// the charge if the whole call was allowed, otherwise without it. Never
	// negative.
	Remaining int64
	// ResetAfterMicros is the time until the full capacity is back, rounded
	// up; 0 when nothing is consumed.
	ResetAfterMicros int64
	// RetryAfterMicros is the time until this same cost would be admitted,
	// rounded up: 0 when allowed, Never when no wait helps.
	RetryAfterMicros int64
	// DelayMicros is how long a Queue holds the admitted request, rounded up;
	// 0 for all others.
	DelayMicros int64
}

// RestoreMicros is the time in which the whole capacity is restored, rounded
// up: burst * window / limit of a bucket, else the window.
func (l *Limit) RestoreMicros() int64 {
	if !l.Algorithm.HasBurst() {
		return l.WindowMicros
	}
	hi, product := bits.Mul64(uint64(l.Capacity()), uint64(l.WindowMicros))
	if l.Units <= 0 || hi >= uint64(l.Units) {
		return math.MaxInt64
	}
	quotient, rest := bits.Div64(hi, product, uint64(l.Units))
	if rest > 0 {
		quotient++
	}
	return int64(min(quotient, math.MaxInt64))
}
