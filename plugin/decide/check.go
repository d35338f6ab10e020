package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/lease"
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
	FromNone     Source = iota
	FromRedis           // a script, just now
	FromMemory          // the deny cache: what Redis said before
	FromLease           // units that Redis gave this worker
	FromEmbedded        // the embedded store, where it is the only one
	FromFallback        // the embedded store, or a remembered override, as Redis did not decide
	FromLimit           // the limit itself: it is 0
	FromBurst           // what Redis said to others of a crowd, see overdue.go
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
	// borrowing are the costs where the guarantee charges nothing; or, where limits may pay for others,
	// what is charged of each list alone, see keepLists; else nil.
	borrowing []int64

	// Sizes are those that the limits have for the request, parallel to Limits.Limits; nil if
	// they have those of the configuration. They are own, as an override changes them.
	Sizes []algo.Size
	own   []algo.Size // came with the request, in the calendar windows around its time
	made  *made       // by an operator's override; nil: none is known
	ahead rule.Ahead  // what another tier may need of the request

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
	// Excused: the rule's limits reject, and the request goes on all the same. See over.go.
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

// isUnasked reports whether no store has been asked, or none has said anything yet.
//
//go:inline
func isUnasked(c *Check) bool { return c.Status == Unasked }

// shows reports whether the client sees a decision: every one that a store made. An identity
// that is free of limits sees none.
func (c *Check) shows(i int) bool {
	return !c.Decisions[i].Hidden && c.By != algo.ByFree && (c.Source != FromLimit || !c.Decisions[i].Allowed)
}
