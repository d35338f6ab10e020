package algo

// State is what one key remembers. A State of length 0 is a key that does not
// exist. What its numbers mean is documented with each algorithm.
type State []int64

// Policy is the ordered limits of one rule, which are decided together: either
// all of them admit a request and all are charged, or nothing changes.
type Policy struct {
	limits []Limit
}

// NewPolicy checks the limits against their bounds and prepares the arithmetic.
func NewPolicy(limits []Limit) (*Policy, error) {
	return &Policy{limits: append([]Limit(nil), limits...)}, nil
}

// Limits are the limits the policy was made of, in order. They must not be
// changed.
func (p *Policy) Limits() []Limit { return p.limits }

// Decide checks cost against every limit and, if all allow, charges all of
// them. states and out have one element for each limit; states are updated in
// place, and a denied call changes none.
func (p *Policy) Decide(states []State, nowMicros, cost int64, out []Decision) (allowed bool) {
	return false
}

// Refund gives back what a Decide at chargedAtMicros charged.
func (p *Policy) Refund(states []State, chargedAtMicros, nowMicros, cost int64) {}

// ExpiresAtMicros is when the state of limit i no longer matters; 0 for no
// state.
func (p *Policy) ExpiresAtMicros(i int, s State) int64 { return 0 }

// NeedsNonce says whether the script needs a nonce, unique for each call.
func (p *Policy) NeedsNonce() bool { return false }

// Script is a Lua script and its name in Redis' script cache.
type Script struct {
	Source string
	SHA1   string // hex, as EVALSHA wants it
}

// Script decides a request: EVALSHA sha n key1..keyn cost nonce Args...
func (p *Policy) Script() Script { return Script{} }

// RefundScript gives a charge back:
// EVALSHA sha n key1..keyn cost nonce chargedAtMicros Args...
func (p *Policy) RefundScript() Script { return Script{} }

// Args are the constants of the limits, which follow the variable arguments of
// both scripts.
func (p *Policy) Args() []string { return nil }

// ReplyLen is the number of integers in the reply of Script.
func (p *Policy) ReplyLen() int { return 0 }

// ParseReply reads the reply of Script into out, one element for each limit.
// atMicros is the Redis time of the decision, which a refund names.
func (p *Policy) ParseReply(values []int64, out []Decision) (atMicros int64, allowed bool, err error) {
	return 0, false, nil
}

// RestoreMicros is the time in which the whole capacity is restored.
func (l *Limit) RestoreMicros() int64 {
	if !l.Algorithm.HasBurst() {
		return l.WindowMicros
	}
	return 0
}
