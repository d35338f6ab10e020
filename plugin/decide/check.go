package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/slots"
)

// Status is what is known of a check.
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
	FromFallback        // the embedded store, as Redis did not decide
	FromLimit           // the limit itself: it is 0
)

// Check is what one applying rule asks about the request, and the answer.
type Check struct {
	Rule   *rule.Rule
	Limits *rule.LimitSet
	Tag    []byte
	Costs  []int64     // parallel to Limits.Limits
	Sizes  []algo.Size // likewise, where a size came with the request; else nil

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

	own     []algo.Size  // what Sizes is without a factor
	asked   []algo.Size  // the sizes that Redis was asked with
	factor  int64        // that Sizes was made for, in thousandths; 0: none
	tells   bool         // Redis was told of rejections from memory
	receipt Receipt      // of the decision
	late    Receipt      // of an answer of Redis' that came after the verdict
	nonce   int64        // of the call to Redis
	lease   *lease.Lease // nil: the limit is not leased
	slot    slots.Slot   // what it holds until the request is over
	heard   rule.Heard   // what response headers say of the charge
}

// Charges reports whether the check takes anything of any limit.
func (c *Check) Charges() bool { return len(c.Costs) > 0 && slices.Max(c.Costs) > 0 }

// Decided reports whether a store decided the check.
func (c *Check) Decided() bool { return c.Status == Allowed || c.Status == Rejected }

func unanswered(c *Check) bool { return c.Status == Unasked }

// Enforced reports whether the check's rule can reject the request.
func (c *Check) Enforced() bool { return c.Rule.Mode == config.Enforce }

// Limit is one of the check's limits as it is for this request.
func (c *Check) Limit(i int) algo.Limit {
	l := c.Limits.Limits[i].Limit
	if c.Sizes != nil {
		l.Resize(c.Sizes[i])
	}
	return l
}

// answer makes what a store says of the check its answer. decisions are those of the
// limits, if they have decided.
func (c *Check) answer(source Source, r *algo.Ruling, decisions []algo.Decision) {
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
		c.receipt = c.charged()
	}
}

// charged is what a check whose limits have decided has charged, if anything: memory
// charges nothing.
func (c *Check) charged() Receipt {
	if c.Status != Allowed || c.Source == FromMemory || !c.Charges() {
		return Receipt{}
	}
	return Receipt{
		source: c.Source, limits: c.Limits, tag: c.Tag, costs: c.Costs, sizes: c.Sizes,
		atMicros: c.AtMicros, nonce: c.nonce, lease: c.lease,
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

// Shown reports whether the client is shown a decision: all that were made. Whoever is
// free of limits is shown none.
func (c *Check) Shown(i int) bool {
	return c.By != algo.ByFree && (c.Source != FromLimit || !c.Decisions[i].Allowed)
}

// Outcome is what became of the check by itself, whatever the others say: of a
// request that had an outcome of its own.
func (c *Check) Outcome(request answer.Outcome) answer.Outcome {
	rejected := c.Status == Rejected
	switch {
	case c.Status == Undecided && c.Enforced() && request == answer.FailedDeny:
		return answer.FailedDeny
	case c.Status == Undecided:
		return answer.FailedAllow
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
	case c.Source == FromFallback:
		return answer.LocalLimited
	case c.By.Blocks():
		return answer.Blocked
	}
	return answer.Limited
}
