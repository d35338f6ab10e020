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

// Question is all that is asked about one request: a Check for each rule that
// applies. It is used again for later requests, with the memory that it has.
type Question struct {
	// ContextID is what Envoy calls the request. No host call may name it once the
	// state is Gone or Ended.
	ContextID uint32
	// Checks are in rule order.
	Checks []Check

	stores  *Stores
	state   State
	waiting int  // checks that wait for Redis
	inPipe  int  // checks whose last reply has not come; those that expired count
	turn    turn // its place in the queue, while Held

	verdict   Verdict // once it is concluded
	concluded bool
	refused   bool // and what it charged, or turns out to have, is given back
	settles   bool // some rule settles what it charged when the request is over

	// Memory of all checks.
	decisions []algo.Decision
	tags      []byte
	costs     []int64
	sizes     []algo.Size
}

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

// Enforced reports whether the check's rule can reject the request.
func (c *Check) Enforced() bool { return c.Rule.Mode == config.Enforce }

// Concluded is the verdict on the request, once there is one.
func (q *Question) Concluded() Verdict { return q.verdict }

// State is where the request is in its life.
func (q *Question) State() State { return q.state }

// Keep copies the rules that apply, since the request may outlive the matcher's
// memory. It reports whether there is anything to decide.
func (q *Question) Keep(applied []rule.Applied) bool {
	for i := range applied {
		a := &applied[i]
		if a.Limits == nil {
			continue // an unlimited tier: there is nothing to decide
		}
		c := Check{Rule: a.Rule, Limits: a.Limits}
		q.tags, c.Tag = keep(q.tags, a.Tag)
		q.costs, c.Costs = keep(q.costs, a.Costs)
		q.sizes, c.Sizes = keep(q.sizes, a.Sizes)
		c.own = c.Sizes
		n := len(q.decisions) + len(a.Limits.Limits)
		q.decisions = slices.Grow(q.decisions, n-len(q.decisions))
		c.Decisions = q.decisions[len(q.decisions):n:n]
		clear(c.Decisions)
		q.decisions = q.decisions[:n]
		q.Checks = append(q.Checks, c)
		q.settles = q.settles || a.Rule.Settle != nil
	}
	return len(q.Checks) > 0
}

// keep copies list to the end of memory. It returns memory and the copy, which is
// nil if there is nothing to copy.
func keep[T any](memory, list []T) (grown, kept []T) {
	if len(list) == 0 {
		return memory, nil
	}
	begin := len(memory)
	memory = append(memory, list...)
	return memory, memory[begin:len(memory):len(memory)]
}

// reset makes the question one about another request.
func (q *Question) reset() {
	clear(q.Checks)
	*q = Question{
		stores: q.stores, Checks: q.Checks[:0],
		decisions: q.decisions[:0], tags: q.tags[:0], costs: q.costs[:0], sizes: q.sizes[:0],
	}
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
