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
	slots     concurrency

	name    string     // of the .lua file
	lua     string     // its text
	variant string     // which of its sections to use, see section
	args    []argument // the script's arguments after the cost, and the nonce
	nonce   bool       // whether a nonce stands between them
}

// argument appends one argument of a script.
type argument func(dst []byte, l *limiter) []byte

// arguments is how many arguments the limit has in a script.
func (l *limiter) arguments() int {
	n := 1 + len(l.args)
	if l.nonce {
		n++
	}
	return n
}

func newLimiter(l *Limit) limiter {
	switch l.Algorithm {
	case FixedWindow:
		return newFixedWindow(l)
	case SlidingWindowLog:
		return newSlidingWindowLog(l)
	case SlidingWindowCounter:
		return newSlidingWindowCounter(l)
	case TokenBucket, LeakyBucket, GCRA:
		return newBucketLimiter(l)
	case Concurrency:
		return newConcurrency(l)
	}
	return limiter{}
}

// check decides cost as if it were not charged. A cost of 0 is always allowed.
func (l *limiter) check(s State, nowMicros, cost int64) Decision {
	switch l.algorithm {
	case FixedWindow:
		return l.fixed.check(s, nowMicros, cost)
	case SlidingWindowLog:
		return l.log.check(s, nowMicros, cost)
	case SlidingWindowCounter:
		return l.counter.check(s, nowMicros, cost)
	case Concurrency:
		return l.slots.check(s, nowMicros, cost)
	default:
		return l.bucket.check(s, nowMicros, cost)
	}
}

// charge takes a cost above 0 that check has allowed. It brings d, which check
// returned, up to date and returns the new state, in s where it has room.
func (l *limiter) charge(s State, nowMicros, nonce, cost int64, d *Decision) State {
	switch l.algorithm {
	case FixedWindow:
		return l.fixed.charge(s, nowMicros, cost, d)
	case SlidingWindowLog:
		return l.log.charge(s, nowMicros, cost, d)
	case SlidingWindowCounter:
		return l.counter.charge(s, nowMicros, cost, d)
	case Concurrency:
		return l.slots.charge(s, nowMicros, nonce, cost, d)
	default:
		return l.bucket.charge(s, nowMicros, cost, d)
	}
}

// refund gives back a cost above 0 and returns the new state, in s.
func (l *limiter) refund(s State, chargedAtMicros, nowMicros, nonce, cost int64) State {
	switch l.algorithm {
	case FixedWindow:
		return l.fixed.refund(s, chargedAtMicros, nowMicros, cost)
	case SlidingWindowLog:
		return l.log.refund(s, chargedAtMicros, cost)
	case SlidingWindowCounter:
		return l.counter.refund(s, chargedAtMicros, nowMicros, cost)
	case Concurrency:
		return l.slots.release(s, nonce, cost)
	default:
		return l.bucket.refund(s, chargedAtMicros, nowMicros, cost)
	}
}

// debit charges a cost above 0 at the time of an earlier charge, whether there is
// room or not, up to one capacity on top of the capacity. It returns the new state,
// in s where it has room.
func (l *limiter) debit(s State, chargedAtMicros, nowMicros, cost int64) State {
	switch l.algorithm {
	case FixedWindow:
		return l.fixed.debit(s, chargedAtMicros, nowMicros, cost)
	case SlidingWindowLog:
		return l.log.debit(s, chargedAtMicros, nowMicros, cost)
	case SlidingWindowCounter:
		return l.counter.debit(s, chargedAtMicros, nowMicros, cost)
	case Concurrency:
		return s // slots are never owed
	default:
		if l.bucket.queue {
			return s // it has let its requests go already, each at its turn
		}
		return l.bucket.debit(s, chargedAtMicros, nowMicros, cost)
	}
}

// rebase makes what lies in the future of now, because the clock was set back,
// what happened now, in s. It reports whether there was any.
func (l *limiter) rebase(s State, nowMicros int64) (State, bool) {
	switch l.algorithm {
	case FixedWindow:
		return l.fixed.rebase(s, nowMicros)
	case SlidingWindowLog:
		return l.log.rebase(s, nowMicros)
	case SlidingWindowCounter:
		return l.counter.rebase(s, nowMicros)
	case Concurrency:
		return l.slots.rebase(s, nowMicros)
	default:
		return l.bucket.rebase(s, nowMicros)
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
	case Concurrency:
		return l.slots.expires(s)
	default:
		return bucketExpires(s)
	}
}

// uncharged is a Decision that allows: what a limit says of a cost of 0.
func uncharged(remaining, resetAfterMicros int64) Decision {
	return Decision{
		Allowed:           true,
		Remaining:         max(remaining, 0),
		ResetAfterMicros:  resetAfterMicros,
		ResetBeforeMicros: resetAfterMicros,
	}
}

// reject makes d reject, unless the wait is 0.
func (d *Decision) reject(retryAfterMicros int64) {
	d.Allowed, d.RetryAfterMicros = retryAfterMicros == 0, retryAfterMicros
}

// charged makes d the decision after the charge.
func (d *Decision) charged(cost, resetAfterMicros int64) {
	d.Remaining -= cost
	d.ResetAfterMicros = resetAfterMicros
}

func appendInt(dst []byte, v int64) []byte { return strconv.AppendInt(dst, v, 10) }
