package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Status says how far a check has come.
type Status uint8

// The statuses of a check.
const (
	// Unasked: the request was concluded without it, by a remembered rejection.
	Unasked Status = iota
	// Waiting: Redis was asked.
	Waiting
	// Allowed and Rejected: it was decided.
	Allowed
	Rejected
	// Undecided: Redis will not decide it in time.
	Undecided
)

// Source is who decided a check.
type Source uint8

// The sources of decisions.
const (
	FromNobody   Source = iota
	FromRedis           // a script, just now
	FromMemory          // the deny cache: what Redis said before
	FromLease           // units that Redis gave this worker
	FromEmbedded        // the embedded store, where it is the only one
	FromFallback        // the embedded store, or a remembered override, as Redis did not decide
	FromLimit           // the limit itself: it is 0
	FromBurst           // what Redis said to others of a crowd, see burst.go
	FromReport          // what Redis said to another request for the quota, see quota.go
)

// Check is one applying rule's question about the request, and its answer.
type Check struct {
	Ask
	Said
	charged Charged
}

// Ask is the demand of a check, and all that a layer sees of it. Question.Keep writes it;
// calendars and overrides change its sizes.
type Ask struct {
	Rule   *rule.Rule
	Limits *rule.LimitSet
	Tag    []byte
	Values rule.Values // within the Tag's identity; nil where no limit has "per"
	Costs  []int64     // parallel to Limits.Limits
	// borrowing are the costs where the guarantee charges nothing; nil without one.
	borrowing []int64

	// Sizes are those that the limits have for the request, parallel to Limits.Limits; nil if
	// they have those of the configuration. They are own, as an override changes them.
	Sizes []algo.Size
	own   []algo.Size // came with the request, in the calendar windows around its time
	made  *made       // by an operator's override; nil: none is known

	tells bool         // Redis was told of rejections from memory
	lent  bool         // the failure mode let it go with units that Redis had left, see burst.go
	lease *lease.Lease // nil: the limit is not leased
}

// Said is a store's word on a check. Check.ruled writes it, and what a refund makes of it
// Check.uncharge; while Redis is asked, the Status alone changes.
type Said struct {
	Status    Status
	Source    Source
	Decisions []algo.Decision // parallel to Limits.Limits
	AtMicros  int64           // when it was decided, on the clock of the store that did

	// By is who decided: the limits, or the rule's terms. If it blocks, LeftMicros is
	// for how long; algo.Never for a block without end.
	By         algo.By
	LeftMicros int64
	// EarnedMicros is how long the block is that this rejection has earned; 0 for none.
	EarnedMicros int64
	// Excused: the check rejects, and does not refuse the request. See over.go.
	Excused bool
}

// Charged holds the charges of a check, those that a late reply may report included.
type Charged struct {
	receipt Receipt    // of the answer
	sent    sent       // what Redis was sent
	late    Receipt    // of an answer to that which came after the verdict
	heard   rule.Heard // what response headers say of the charge
}

// sent is the charge that Redis was asked for.
type sent struct {
	nonce int64
	// limits, costs and sizes are those of Ask then. Later the embedded store may have been asked
	// with others.
	limits    *rule.LimitSet
	values    rule.Values
	costs     []int64
	borrowing []int64
	sizes     []algo.Size
}

// Charges reports whether the check takes anything of any limit.
//
//go:inline
func (a *Ask) Charges() bool { return charges(a.Costs) }

//go:inline
func charges(costs []int64) bool { return len(costs) > 0 && slices.Max(costs) > 0 }

// Enforced reports whether the check's rule can reject the request.
//
//go:inline
func (a *Ask) Enforced() bool { return a.Rule.Mode == config.Enforce }

// Limit is one of the check's limits as it is for this request.
//
//go:inline
func (a *Ask) Limit(i int) algo.Limit {
	l := a.Limits.Limits[i].Limit
	if a.Sizes != nil {
		l.Resize(a.Sizes[i])
	}
	return l
}

// Decided reports whether a store decided the check.
//
//go:inline
func (s *Said) Decided() bool { return s.Status == Allowed || s.Status == Rejected }

// isUnasked reports whether no store has been asked, or none has said anything yet.
//
//go:inline
func isUnasked(c *Check) bool { return c.Status == Unasked }

// ruled makes what a store says of the check its answer. decisions are those of the limits,
// if they have decided, and nonce is that of the charge, if it has one.
func (c *Check) ruled(source Source, r *algo.Ruling, decisions []algo.Decision, nonce int64) {
	must.Hold(!c.Decided() && source != FromNobody, "a check is decided once")
	c.Source, c.AtMicros, c.By, c.EarnedMicros = source, r.AtMicros, r.By, r.EarnedMicros
	c.Status = Rejected
	if r.Allowed {
		c.Status = Allowed
	}
	switch {
	case r.By.Blocks():
		c.block(r.LeftMicros)
	case r.By == algo.ByFree:
		for i := range c.Decisions {
			c.Decisions[i] = algo.Decision{Allowed: true}
		}
	default:
		copy(c.Decisions, decisions)
		if r.Allowed && source != FromMemory && c.Charges() { // memory charges nothing
			c.charged.receipt.fill(c.receiptOf(source, c.Sizes, c.Decisions, r.AtMicros, nonce))
		}
	}
	if c.Values != nil {
		c.hideAbsent() // parts.go
	}
}

// receiptOf is the receipt of a charge for the check, by what the limits have decided.
func (a *Ask) receiptOf(source Source, sizes []algo.Size, decisions []algo.Decision, atMicros, nonce int64) Receipt {
	costs := a.Costs
	if a.borrowing != nil && a.borrows(decisions) {
		costs = a.borrowing
	}
	return Receipt{
		source: source, limits: a.Limits, tag: a.Tag, values: a.Values, costs: costs, sizes: sizes,
		atMicros: atMicros, nonce: nonce, lease: a.lease,
	}
}

// block makes all limits of a check reject, for as long as a block lasts.
func (c *Check) block(leftMicros int64) {
	c.LeftMicros = leftMicros
	reset := max(leftMicros, 0)
	for i := range c.Decisions {
		bounds := c.Limit(i).Bounds
		c.Decisions[i] = algo.Decision{
			ResetAfterMicros: reset, ResetBeforeMicros: reset, RetryAfterMicros: leftMicros,
			BeginsMicros: bounds[1], EndsMicros: bounds[2],
		}
	}
}

// shows reports whether the client sees a decision: every one that a store made. An identity
// that is free of limits sees none.
func (c *Check) shows(i int) bool {
	return !c.Decisions[i].Hidden && c.By != algo.ByFree && (c.Source != FromLimit || !c.Decisions[i].Allowed)
}

// Outcome is the check's own result, whatever the others say.
func (c *Check) Outcome() answer.Outcome {
	rejected := c.Status == Rejected
	switch {
	case failsDenying(c):
		return answer.FailedDeny
	case c.Status == Undecided:
		return answer.FailedAllow
	case c.Excused:
		return answer.Over
	case rejected && !c.Enforced():
		return answer.ShadowLimited
	case rejected:
		return c.rejection()
	case c.Source == FromFallback:
		return answer.LocalAllowed
	}
	return answer.Allowed
}

// rejection is the outcome of a check that rejects the request.
func (c *Check) rejection() answer.Outcome {
	switch {
	case c.By.Blocks():
		return answer.Blocked
	case c.Source == FromFallback:
		return answer.LocalLimited
	}
	return answer.Limited
}
