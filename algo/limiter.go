package algo

import "strconv"

// limiter is one limit made ready: its algorithm's arithmetic and script. It is
// a union rather than an interface because TinyGo's calls through interfaces
// cost more than a switch.
type limiter struct {
	algorithm Algorithm
	fixed     fixedWindow
	log       slidingWindowLog
	counter   slidingWindowCounter
	bucket    bucket // token_bucket, leaky_bucket and gcra

	lua     string   // the algorithm's .lua file
	variant string   // which of the file's sections to use, see sections
	args    []string // the script's constants
}

func newLimiter(l *Limit) limiter {
	switch l.Algorithm {
	case FixedWindow:
		return newFixedWindow(l)
	case SlidingWindowLog:
		return newSlidingWindowLog(l)
	case SlidingWindowCounter:
		return newSlidingWindowCounter(l)
	case TokenBucket:
		return newTokenBucket(l)
	case LeakyBucket:
		return newLeakyBucket(l)
	default:
		return newGCRA(l)
	}
}

// check decides cost as if it were not charged.
func (l *limiter) check(s State, nowMicros, cost int64) Decision {
	switch l.algorithm {
	case FixedWindow:
		return l.fixed.check(s, nowMicros, cost)
	case SlidingWindowLog:
		return l.log.check(s, nowMicros, cost)
	case SlidingWindowCounter:
		return l.counter.check(s, nowMicros, cost)
	default:
		return l.bucket.check(s, nowMicros, cost)
	}
}

// charge takes a cost above 0 that check has allowed. It brings d, which check
// returned, up to date and returns the new state, in s where it has room.
func (l *limiter) charge(s State, nowMicros, cost int64, d *Decision) State {
	switch l.algorithm {
	case FixedWindow:
		return l.fixed.charge(s, nowMicros, cost, d)
	case SlidingWindowLog:
		return l.log.charge(s, nowMicros, cost, d)
	case SlidingWindowCounter:
		return l.counter.charge(s, nowMicros, cost, d)
	default:
		return l.bucket.charge(s, nowMicros, cost, d)
	}
}

// refund gives back a cost above 0 and returns the new state, in s.
func (l *limiter) refund(s State, chargedAtMicros, nowMicros, cost int64) State {
	switch l.algorithm {
	case FixedWindow:
		return l.fixed.refund(s, chargedAtMicros, nowMicros, cost)
	case SlidingWindowLog:
		return l.log.refund(s, chargedAtMicros, nowMicros, cost)
	case SlidingWindowCounter:
		return l.counter.refund(s, chargedAtMicros, nowMicros, cost)
	default:
		return l.bucket.refund(s, chargedAtMicros, nowMicros, cost)
	}
}

// expires is when the state no longer matters, in microseconds; 0 for none.
func (l *limiter) expires(s State) int64 {
	switch l.algorithm {
	case FixedWindow:
		return l.fixed.expires(s)
	case SlidingWindowLog:
		return l.log.expires(s)
	case SlidingWindowCounter:
		return l.counter.expires(s)
	default:
		return bucketExpires(s)
	}
}

func formatInt(v int64) string { return strconv.FormatInt(v, 10) }
