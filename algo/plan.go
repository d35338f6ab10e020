package algo

// State is what one key remembers. A State of length 0 is a key that does not
// exist; one that makes no sense is taken for it. Its layout, all times in
// microseconds since the Unix epoch:
//
//	fixed_window            start of the window, units charged in it
//	sliding_window_log      pairs, oldest first: time, units charged then
//	sliding_window_counter  pairs, oldest first: start of the sub-window, units
//	token_bucket            when the bucket is full: whole us, fraction in 2^-30 us
//	leaky_bucket            when the bucket is drained: likewise
//	gcra                    the theoretical arrival time: likewise
type State []int64

// Plan is the ordered limits of one rule, which are decided together: either
// all of them admit a request and all are charged, or nothing changes.
type Plan struct {
	limits   []Limit
	limiters []limiter
	script   Script
	refund   Script
	args     []string
}

// NewPlan checks the limits against their bounds and prepares the arithmetic
// and the scripts.
func NewPlan(limits []Limit) (*Plan, error) {
	if err := validate(limits); err != nil {
		return nil, err
	}
	p := &Plan{limits: append([]Limit(nil), limits...)}
	for i := range p.limits {
		l := newLimiter(&p.limits[i])
		p.limiters = append(p.limiters, l)
		p.args = append(p.args, l.args...)
	}
	p.script = newScript(composeCheck(p.limiters))
	p.refund = newScript(composeRefund(p.limiters))
	return p, nil
}

// Limits are the limits the policy was made of, in order. They must not be
// changed.
func (p *Plan) Limits() []Limit { return p.limits }

// Decide checks cost against every limit and, if all allow, charges all of
// them. states and out have one element for each limit; states are updated in
// place, and a denied call changes none. A cost below 0 counts as 0.
func (p *Plan) Decide(states []State, nowMicros, cost int64, out []Decision) (allowed bool) {
	cost = max(cost, 0)
	allowed = true
	for i := range p.limiters {
		out[i] = p.limiters[i].check(states[i], nowMicros, cost)
		allowed = allowed && out[i].Allowed
	}
	if !allowed || cost == 0 {
		return allowed
	}
	for i := range p.limiters {
		states[i] = p.limiters[i].charge(states[i], nowMicros, cost, &out[i])
	}
	return true
}

// Refund gives back what a Decide at chargedAtMicros charged, no more, and
// nothing to a state that has gone since. A bucket that was at rest before the
// charge and was charged again before the refund comes back up to that much time
// earlier: it does not remember the rest.
func (p *Plan) Refund(states []State, chargedAtMicros, nowMicros, cost int64) {
	if cost <= 0 {
		return
	}
	for i := range p.limiters {
		states[i] = p.limiters[i].refund(states[i], chargedAtMicros, nowMicros, cost)
	}
}

// ExpiresAtMicros is when the state of limit i no longer matters; 0 for no
// state.
func (p *Plan) ExpiresAtMicros(i int, s State) int64 { return p.limiters[i].expires(s) }

// NeedsNonce says whether the script needs a nonce, unique for each call.
func (p *Plan) NeedsNonce() bool {
	for i := range p.limits {
		if p.limits[i].Algorithm == SlidingWindowLog {
			return true
		}
	}
	return false
}

// Script decides a request: EVALSHA sha n key1..keyn cost nonce Args...
func (p *Plan) Script() Script { return p.script }

// RefundScript gives a charge back:
// EVALSHA sha n key1..keyn cost nonce chargedAtMicros Args...
func (p *Plan) RefundScript() Script { return p.refund }

// Args are the constants of the limits, which follow the variable arguments of
// both scripts.
func (p *Plan) Args() []string { return p.args }
