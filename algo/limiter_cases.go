package algo

// The embedded store calls these for each request, so they switch over the algorithms; no other
// file does. Function pointers in the rows would cost 4 ns a call more, where rebase, check,
// charge, expires and refund together take 15 to 36 ns (TinyGo, V8). A test makes sure that
// each switch names each algorithm.

// check decides cost as if it were not charged. A cost of 0 is always allowed.
func (l *limiter) check(s State, nowMicros, cost int64) Decision {
	switch l.kind {
	case FixedWindow:
		return l.fixed.check(s, nowMicros, cost)
	case SlidingWindowLog:
		return l.log.check(s, nowMicros, cost)
	case SlidingWindowCounter:
		return l.counter.check(s, nowMicros, cost)
	case TokenBucket, LeakyBucket, GCRA:
		return l.bucket.check(s, nowMicros, cost)
	case kindOfSteps:
		return l.steps.check(s, nowMicros, cost)
	case kindOfWaits:
		return l.bucket.checkWait(s, nowMicros, cost)
	case Concurrency:
		return l.slots.check(s, nowMicros, cost)
	}
	return Decision{}
}

// charge takes a cost above 0 that check has allowed. It brings d, which check
// returned, up to date and returns the new state, in s where it has room.
func (l *limiter) charge(s State, nowMicros, nonce, cost int64, d *Decision) State {
	switch l.kind {
	case FixedWindow:
		return l.fixed.charge(s, nowMicros, cost, d)
	case SlidingWindowLog:
		return l.log.charge(s, nowMicros, cost, d)
	case SlidingWindowCounter:
		return l.counter.charge(s, nowMicros, cost, d)
	case TokenBucket, LeakyBucket, GCRA:
		return l.bucket.charge(s, nowMicros, cost, d)
	case kindOfWaits:
		return l.bucket.chargeWait(s, nowMicros, cost, d)
	case kindOfSteps:
		return l.steps.charge(s, nowMicros, cost, d)
	case Concurrency:
		return l.slots.charge(s, nowMicros, nonce, cost, d)
	}
	return s
}

// refund gives back a cost above 0 and returns the new state, in s.
func (l *limiter) refund(s State, chargedAtMicros, nowMicros, nonce, cost int64) State {
	switch l.kind {
	case FixedWindow:
		return l.fixed.refund(s, chargedAtMicros, nowMicros, cost)
	case SlidingWindowLog:
		return l.log.refund(s, chargedAtMicros, cost)
	case SlidingWindowCounter:
		return l.counter.refund(s, chargedAtMicros, nowMicros, cost)
	case kindOfSteps:
		return l.steps.refund(s, chargedAtMicros, nowMicros, cost)
	case TokenBucket, LeakyBucket, GCRA, kindOfWaits:
		return l.bucket.refund(s, chargedAtMicros, nowMicros, cost)
	case Concurrency:
		if e := slotsOf(s, nonce); e != nil && e[slotCount] == cost {
			return append(s[:len(s)-len(e)], e[slotLen:]...)
		}
	}
	return s
}

// debit charges a cost above 0 at the time of an earlier charge, whether there is
// room or not, up to one capacity on top of the capacity. It returns the new state,
// in s where it has room. A form that does not owe is never asked.
func (l *limiter) debit(s State, chargedAtMicros, nowMicros, cost int64) State {
	switch l.kind {
	case FixedWindow:
		return l.fixed.debit(s, chargedAtMicros, nowMicros, cost)
	case SlidingWindowLog:
		return l.log.debit(s, chargedAtMicros, nowMicros, cost)
	case SlidingWindowCounter:
		return l.counter.debit(s, chargedAtMicros, nowMicros, cost)
	case TokenBucket, LeakyBucket, GCRA:
		return l.bucket.debit(s, chargedAtMicros, nowMicros, cost)
	case kindOfSteps:
		return l.steps.debit(s, chargedAtMicros, nowMicros, cost)
	case Concurrency, kindOfWaits: // slots are never owed, nor are requests that have gone at their turn
	}
	return s
}

// rebase is Rebase of the limits from one on to another, each state in place.
func (p *Plan) rebase(states []State, nowMicros int64, from, to int) (changed bool) {
	for i := from; i < to; i++ {
		l, s, did := &p.limiters[i], states[i], false
		switch l.kind {
		case FixedWindow:
			s, did = l.fixed.rebase(s, nowMicros)
		case SlidingWindowLog:
			s, did = l.log.rebase(s, nowMicros)
		case SlidingWindowCounter:
			s, did = l.counter.rebase(s, nowMicros)
		case TokenBucket, LeakyBucket, GCRA, kindOfWaits:
			s, did = l.bucket.rebase(s, nowMicros)
		case kindOfSteps:
			s, did = l.steps.rebase(s, nowMicros)
		case Concurrency:
			s, did = l.slots.rebase(s, nowMicros)
		}
		states[i], changed = s, changed || did
	}
	return changed
}

// ExpiresAtMicros is when the state of limit i no longer matters; 0 for no state.
func (p *Plan) ExpiresAtMicros(i int, s State) (micros int64) {
	l := &p.limiters[i]
	switch l.kind {
	case FixedWindow:
		return l.fixed.expires(s)
	case SlidingWindowLog:
		if len(s) >= entryLen {
			return s[len(s)/entryLen*entryLen-entryLen+entryLast] + l.log.window
		}
	case SlidingWindowCounter:
		if len(s) >= pairLen {
			return s[len(s)-pairLen+pairTime] + l.counter.size + l.counter.window
		}
	case TokenBucket, LeakyBucket, GCRA, kindOfWaits:
		return l.bucket.expires(s)
	case kindOfSteps:
		if l.steps.isState(s) {
			return s[stepEnds]
		}
	case Concurrency:
		for ; len(s) >= slotLen; s = s[slotLen:] {
			micros = max(micros, s[slotEnd])
		}
	}
	return micros
}
