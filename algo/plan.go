package algo

// State is the content of one key. A State of length 0 stands for a key that does not
// exist, as does one that makes no sense. Its layout, all times in
// microseconds since the Unix epoch:
//
//	fixed_window            start of the window, units charged in it; of a calendar's
//	                        window also its end
//	sliding_window_log      threes, oldest first: times of the first and the last
//	                        charge, units
//	sliding_window_counter  pairs, oldest first: start of the sub-window, units
//	token_bucket, gcra,     when it was counted; when it will be full, on schedule or
//	leaky_bucket            drained: whole us, fraction in 2^-30 us; the limit that
//	                        it was counted with; in debt also what is beyond the
//	                        capacity: whole us, fraction in 2^-30 us; or, of a limit
//	                        with batches, units lent in this period and in the one
//	                        before, and when this period ends
//	token_bucket in steps   start of the step in which it was counted, units missing, how
//	                        many of them are beyond the capacity, when all will be back
//	concurrency             threes, in no order: nonce, slots, when they end
type State []int64

// Plan is the ordered limits of one rule, which are decided together: either
// all of them admit a request and all are charged, or nothing changes.
type Plan struct {
	limits   []Limit
	limiters []limiter
	script   Script
	refund   Script
	slots    int // the first limit whose slots requests hold; -1: none
	terms    Terms
	// guarantee and pool are limits; noLimit both, or none.
	guarantee, pool int
	own             int // how many limits, the first ones, are the rule's own, see over.go
}

// NewPlan checks the limits against their bounds and prepares the arithmetic
// and the scripts.
func NewPlan(limits []Limit) (*Plan, error) { return NewPlanWithTerms(limits, Terms{}) }

// Sized makes *into the plan that p is for a request that brings sizes, one for
// each limit, and returns it. It decides, and its scripts' arguments and replies
// are, as if the limits had been configured so; states and scripts are p's own.
// into keeps its memory from call to call and must be used for p alone. ok is
// false if a size is out of bounds.
func (p *Plan) Sized(into *Plan, sizes []Size) (sized *Plan, ok bool) {
	into.script, into.refund, into.terms, into.slots = p.script, p.refund, p.terms, p.slots
	into.guarantee, into.pool, into.own = p.guarantee, p.pool, p.own
	into.limits = append(into.limits[:0], p.limits...)
	into.limiters = append(into.limiters[:0], p.limiters...)
	for i := range into.limits {
		l := &into.limits[i]
		if sizes[i] == l.Size() {
			continue
		}
		classes := l.Ceiling > 0
		l.Resize(sizes[i])
		if !l.sizeIsValid() || classes != (l.Ceiling > 0) {
			return nil, false
		}
		into.limiters[i] = newLimiter(l)
	}
	return into, true
}

// At is Sized for sizes that the limits can have; p itself if there are none.
func (p *Plan) At(into *Plan, sizes []Size) *Plan {
	if len(sizes) == 0 {
		return p
	}
	hold(len(sizes) == len(p.limits), "there is a size for each limit")
	sized, ok := p.Sized(into, sizes)
	hold(ok, "limits have sizes that they can have")
	if ok {
		return sized
	}
	return p
}

// Limits are the limits the plan was made of, in order. They must not be
// changed.
func (p *Plan) Limits() []Limit { return p.limits }

// Each is one cost for each of the limits.
func (p *Plan) Each(cost int64) []int64 {
	costs := make([]int64, len(p.limits))
	for i := range costs {
		costs[i] = cost
	}
	return costs
}

// OtherTime reports whether a limit's calendar windows are those of another time than
// now. The script charges nothing then, and answers its time: see ErrOtherTime.
func (p *Plan) OtherTime(nowMicros int64) bool {
	for i := range p.limits {
		if l := &p.limits[i]; l.CalendarID != "" {
			if _, ends := l.Bounds.window(nowMicros); ends == 0 {
				return true
			}
		}
	}
	return false
}

// Decide checks each limit's cost and, if all limits allow theirs, charges them. Where the rule's own
// limits reject it may charge the others, and OthersPay says so: see over.go.
// costs, states and out have one element for each limit; states are updated in
// place, and a denied call changes none. A limit whose cost is 0, or less, only
// reports: it allows and is not charged.
//
// What Rebase changes must have been changed before, and now must not be of
// OtherTime. Of a guarantee and its pool Resolve then makes one decision.
func (p *Plan) Decide(states []State, nowMicros int64, costs []int64, out []Decision) (allowed bool) {
	return p.DecideAs(0, states, nowMicros, costs, out)
}

// DecideAs is Decide for a request with a nonce: slots that it takes are under it.
func (p *Plan) DecideAs(nonce int64, states []State, nowMicros int64, costs []int64, out []Decision) (allowed bool) {
	return p.decide(nonce, Over{}, states, nowMicros, costs, out)
}

// Over is units of an earlier batch that have been spent or lost by now: its worker holds them no
// more.
type Over struct {
	Units         int64
	ChargedMicros int64 // when they were charged, on the store's clock
}

// DecideBatch is Decide for a batch of a limit with a lease, whose worker says what is over of
// an earlier one. A batch that is denied leaves that one as it is.
func (p *Plan) DecideBatch(over Over, states []State, nowMicros int64, costs []int64, out []Decision) (allowed bool) {
	return p.decide(0, over, states, nowMicros, costs, out)
}

func (p *Plan) decide(
	nonce int64, over Over, states []State, nowMicros int64, costs []int64, out []Decision,
) (allowed bool) {
	if !p.Check(states, nowMicros, costs, out) {
		return false
	}
	from, to := 0, p.own
	if p.OthersPay(out) {
		from, to = p.own, len(p.limiters)
	}
	for i := from; i < to; i++ {
		if costs[i] <= 0 || i == p.guarantee && !out[i].Allowed {
			continue
		}
		if over.Units > 0 && p.limiters[i].over {
			states[i] = p.limiters[i].bucket.endBatch(states[i], nowMicros, over)
		}
		states[i] = p.limiters[i].charge(states[i], nowMicros, nonce, costs[i], &out[i])
		hold(out[i].Remaining >= 0 || i == p.pool, "nothing is charged beyond what remains")
		out[i].Remaining = max(out[i].Remaining, 0)
	}
	return true
}

// Check is Decide without a charge: whether it would allow the costs now.
func (p *Plan) Check(states []State, nowMicros int64, costs []int64, out []Decision) (allowed bool) {
	hold(p.fits(states, costs) && len(out) >= len(p.limiters), "each limit has a state, a cost and a decision")
	allowed = p.checkList(states, nowMicros, costs, out, 0, p.own)
	p.hideOthers(out)
	if p.guarantee == noLimit {
		if !allowed && p.asksOthers(costs) {
			return p.checkList(states, nowMicros, costs, out, p.own, len(p.limiters))
		}
		return allowed
	}
	// What the guarantee says by itself is corrected: of a cost of 0 it is none, and it waits until the
	// pool's debt leaves room.
	d, pool := &out[p.guarantee], &p.limiters[p.pool].bucket
	switch {
	case costs[p.guarantee] <= 0 || costs[p.pool] > 2*pool.capacity:
		d.Allowed, d.RetryAfterMicros = false, Never
	case d.RetryAfterMicros >= 0:
		over := pool.lead(states[p.pool], nowMicros) + costs[p.pool]*pool.interval - 2*pool.tolerance
		wait := max(d.RetryAfterMicros, pool.ceilMicros(over))
		d.Allowed, d.RetryAfterMicros = wait == 0, wait
	}
	allowed = true
	for i := range p.limiters {
		allowed = allowed && p.allows(i, out)
	}
	return allowed
}

// hideOthers makes the decisions of the others those of limits that were not asked.
func (p *Plan) hideOthers(out []Decision) {
	for i := p.own; i < len(p.limits); i++ {
		out[i] = Decision{Allowed: true, Hidden: true}
	}
}

// allows reports whether limit i stands in no request's way. The guarantee stands in none, and the pool
// in none that the guarantee admits.
func (p *Plan) allows(i int, out []Decision) bool {
	return out[i].Allowed || i == p.guarantee || i == p.pool && out[p.guarantee].Allowed
}

// checkList checks the limits from one on to another.
func (p *Plan) checkList(
	states []State, nowMicros int64, costs []int64, out []Decision, from, to int,
) (allowed bool) {
	allowed = true
	for i := from; i < to; i++ {
		out[i] = p.limiters[i].check(states[i], nowMicros, max(costs[i], 0))
		allowed = allowed && out[i].Allowed
	}
	return allowed
}

// fits reports whether there is a state and a cost for each limit.
func (p *Plan) fits(states []State, costs []int64) bool {
	return len(states) == len(p.limiters) && len(costs) == len(p.limiters)
}

// Own is how many of the limits, the first ones, are the rule's own. The others may pay for them.
func (p *Plan) Own() int { return p.own }

// OthersPay reports whether the others have paid for a request that was admitted: the rule's own limits
// reject it.
func (p *Plan) OthersPay(out []Decision) bool {
	return p.own < len(p.limits) && LongestWait(out[:p.own]) != 0
}

// WaitMicros is for how long a request is rejected that the plan has rejected: until one of the two
// lists has room, if the others were asked. Never if no wait helps.
func (p *Plan) WaitMicros(out []Decision) int64 {
	return WaitOfLists(out[:p.own], out[p.own:len(p.limits)])
}

// WaitOfLists is until one of the two lists has room, of which the others may not have been asked.
func WaitOfLists(own, others []Decision) int64 {
	wait := LongestWait(others)
	if wait == 0 {
		return LongestWait(own)
	}
	return ShorterWait(wait, LongestWait(own))
}

// Rebase moves times that lie in the future, because the clock was set back, to now, so that
// no identity waits for the clock. It reports whether anything changed; the caller then keeps
// the states even if the call is denied. The scripts rebase by themselves.
func (p *Plan) Rebase(states []State, nowMicros int64) (changed bool) {
	return p.rebase(states, nowMicros, 0, len(p.limiters))
}

// RebaseFor is Rebase of what Decide of these costs will look at: the others only if they are asked.
// It spoils out.
func (p *Plan) RebaseFor(states []State, nowMicros int64, costs []int64, out []Decision) (changed bool) {
	if p.own == len(p.limits) {
		return p.Rebase(states, nowMicros)
	}
	changed = p.rebase(states, nowMicros, 0, p.own)
	if !p.checkList(states, nowMicros, costs, out, 0, p.own) && p.asksOthers(costs) {
		changed = p.rebase(states, nowMicros, p.own, len(p.limits)) || changed
	}
	return changed
}

// Refund changes the charge of a Decide at chargedAtMicros. costs has one element for each
// limit: the units to give back or, below 0, to charge in addition. Call Rebase first.
//
// Refund gives back no more than is there, and nothing to a state that has gone since. A
// bucket that was at rest before the charge and was charged again before the refund
// comes back up to that much time earlier: it does not remember the rest.
//
// Additional units are charged as of chargedAtMicros, whether there is room or not, if that
// time still counts. A state holds at most twice its capacity; units beyond that are lost.
// A Queue takes none.
func (p *Plan) Refund(states []State, chargedAtMicros, nowMicros int64, costs []int64) {
	p.RefundAs(0, states, chargedAtMicros, nowMicros, costs)
}

// RefundAs is Refund of what a DecideAs charged with this nonce. Slots are given back
// if they are there; a cost of 0 leaves them alone.
func (p *Plan) RefundAs(nonce int64, states []State, chargedAtMicros, nowMicros int64, costs []int64) {
	p.refundEach(nonce, states, chargedAtMicros, nowMicros, costs, false)
}

// RefundBatch is Refund of units of a batch that were not spent.
func (p *Plan) RefundBatch(states []State, chargedAtMicros, nowMicros int64, costs []int64) {
	p.refundEach(0, states, chargedAtMicros, nowMicros, costs, true)
}

func (p *Plan) refundEach(nonce int64, states []State, chargedAtMicros, nowMicros int64, costs []int64, batch bool) {
	hold(p.fits(states, costs), "each limit has a state and a cost")
	for i := range p.limiters {
		switch l := &p.limiters[i]; {
		case costs[i] > 0 && batch && l.over:
			states[i] = l.bucket.refundLent(states[i], chargedAtMicros, nowMicros, costs[i], true)
		case costs[i] > 0:
			states[i] = l.refund(states[i], chargedAtMicros, nowMicros, nonce, costs[i])
		case costs[i] < 0 && l.owes:
			states[i] = l.debit(states[i], chargedAtMicros, nowMicros, -max(costs[i], -2*MaxUnits))
		}
	}
}

// Slots is the first limit whose slots requests hold until they end; ok is false if the plan
// has no such limit. All of them take the nonce.
func (p *Plan) Slots() (limit int, ok bool) { return p.slots, p.slots >= 0 }

// As an unsigned number Never is the longest of all waits.

// ShorterWait is the shorter of two waits.
func ShorterWait(a, b int64) int64 { return int64(min(uint64(a), uint64(b))) }

// LongerWait is the longer of two waits.
func LongerWait(a, b int64) int64 { return int64(max(uint64(a), uint64(b))) }

// LongestWait is for how long the decisions reject the same cost: before the longest of their waits
// is over, it cannot be admitted. It is 0 if none of them rejects, and Never if no wait helps.
func LongestWait(decisions []Decision) (micros int64) {
	for i := range decisions {
		if d := &decisions[i]; !d.Allowed {
			micros = LongerWait(micros, d.RetryAfterMicros)
		}
	}
	return micros
}

// Earned extends the wait of each rejection to the end of the block that it has earned: a
// client that came back when the limit has room would meet the block.
func Earned(out []Decision, micros int64) {
	for i := range out {
		if d := &out[i]; !d.Allowed && d.RetryAfterMicros != Never {
			d.RetryAfterMicros = max(d.RetryAfterMicros, micros)
		}
	}
}

// InUse is the share of its capacity that an identity has in use, of a whole and rounded up: the largest of
// its limits'. A limit that was not asked has none.
func (p *Plan) InUse(out []Decision, whole int64) (most int64) {
	for i := range p.limits {
		capacity := p.limits[i].Room()
		if capacity == 0 || out[i].Hidden {
			continue // it only reported, and has no state
		}
		used := capacity - out[i].Remaining
		most = max(most, (used*whole+capacity-1)/capacity)
	}
	return min(most, whole)
}
