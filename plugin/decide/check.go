package decide

import (
	"github.com/sluiceproxy/sluice/algo"
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
	FromNone     Source = iota
	FromRedis           // a script, just now
	FromMemory          // the deny cache: what Redis said before
	FromLease           // units that Redis gave this worker
	FromEmbedded        // the embedded store, where it is the only one
	FromFallback        // the embedded store, or a remembered override, as Redis did not decide
	FromLimit           // the limit itself: it is 0
	FromBurst           // what Redis said to others of a crowd, see overload.go
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
	Rule        *rule.Rule
	rule.Demand // as an override changes it
	overridden
	lease *lease.Lease // nil: the limit is not leased

	tells bool // Redis was told of rejections from memory: penalty.go
	lent  bool // the failure mode let it go with units that Redis had left: overload.go
}

// Said is a store's word on a check. Stores.answer writes it, and what a refund makes of it
// Stores.giveAllBack; while Redis is asked, the Status alone changes.
type Said struct {
	Status    Status
	Source    Source
	Decisions []algo.Decision // parallel to Limits.Limits
	// Ruling is of the store that decided. It is Over also of a rule whose over has no limits: a rejection
	// is excused then, and the request goes on.
	algo.Ruling
}

// Decided reports whether a store decided the check.
//
//go:inline
func (s *Said) Decided() bool { return s.Status == Allowed || s.Status == Rejected }

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
	// Demand is the check's then. Later the embedded store may have been asked with another.
	rule.Demand
}

// shows reports whether the client sees a decision: every one that a store made. An identity
// that is free of limits sees none.
func (c *Check) shows(i int) bool {
	return !c.Decisions[i].Hidden && c.By != algo.ByFree && (c.Source != FromLimit || !c.Decisions[i].Allowed)
}

// Receipt says what one check has charged, and where: all that a store needs to take it back.
// The zero Receipt stands for no charge. A Receipt with slots must not be moved.
type Receipt struct {
	source      Source
	rule.Demand              // with the calendar windows that it was charged in
	atMicros    int64        // when it was charged, on the clock of the store that did
	nonce       int64        // FromRedis and FromLease: of the call that charged it
	lease       *lease.Lease // FromLease: which lease the unit is of
	occupied
	self *Receipt // where it was filled, for the assertion that there is no copy of it
}

// How a store's ruling becomes the answer of a check, and its charge a receipt.

// answer notes a store's ruling on a check. decisions are the limits' decisions, if they have decided, and
// nonce is the nonce of the charge, if there is one.
func (s *Stores) answer(
	q *Question, c *Check, source Source, r *algo.Ruling, decisions []algo.Decision, nonce int64, now Time,
) {
	must.Hold(!c.Decided() && source != FromNone, "a check is decided once")
	c.Source, c.Status, c.Ruling = source, Allowed, *r
	if !r.Allowed {
		c.Status = Rejected
		c.Over = c.Over || c.Rule.Excuses && c.Rule.Enforced && c.By == algo.ByLimits
	}
	switch {
	case r.By.Blocks(): // all limits reject, for as long as the block lasts
		reset := max(r.LeftMicros, 0)
		for i := range c.Decisions {
			bounds := algo.Bounds{}
			if c.Sizes != nil {
				bounds = c.Sizes[i].Bounds
			}
			c.Decisions[i] = algo.Decision{
				ResetAfterMicros: reset, ResetBeforeMicros: reset, RetryAfterMicros: r.LeftMicros,
				BeginsMicros: bounds[1], EndsMicros: bounds[2],
			}
		}
	case r.By == algo.ByFree:
		for i := range c.Decisions {
			c.Decisions[i] = algo.Decision{Allowed: true}
		}
	default:
		copy(c.Decisions, decisions)
		if !r.Allowed || source == FromMemory { // memory charges nothing
			break
		}
		if taken, some := q.taken(c.Demand, r, c.Decisions); some {
			c.charged.receipt.fill(Receipt{
				Demand: taken, source: source, atMicros: r.AtMicros, nonce: nonce, lease: c.lease,
			})
		}
	}
	if c.Values != nil {
		for i := range c.Decisions {
			if _, applies := c.Limits.ValuesOf(c.Values, i); !applies { // the request has no value for its "per"
				c.Decisions[i] = algo.Decision{Allowed: true, Hidden: true}
			}
		}
	}
	if c.Limits.HasSlots && c.charged.receipt.source != FromNone {
		s.slots.occupy(c, now)
	}
}

// taken is a demand with what the limits charge that have admitted it, by a ruling and their decisions. some
// is false if that is nothing.
func (q *Question) taken(d rule.Demand, r *algo.Ruling, decisions []algo.Decision) (_ rule.Demand, some bool) {
	if d.Limits.Pays || d.Limits.Guarantee >= 0 {
		n := len(q.costs)
		q.costs = append(q.costs, d.Costs...)
		d.Costs = q.costs[n:len(q.costs):len(q.costs)]
	}
	for i := range d.Costs {
		if d.Limits.Pays && r.Over != (i >= d.Limits.Own) || i == d.Limits.Guarantee && decisions[i].Hidden {
			d.Costs[i] = 0 // the other list has paid, or the pool has
		}
		some = some || d.Costs[i] > 0
	}
	return d, some
}

// fill records a charge in r, whose earlier charge has been given back.
func (r *Receipt) fill(with Receipt) {
	must.Hold(r.source == FromNone, "a receipt is not overwritten: its charge would be lost")
	*r = with
	if must.On {
		r.self = r
	}
}

// void empties r, because its charge is given back or stands for good.
func (r *Receipt) void() {
	must.Hold(!must.On || r.source == FromNone || r.self == r, "a receipt stays where it is, and is given back once")
	must.Hold(!r.Held(), "the receipt of occupied slots is kept")
	*r = Receipt{}
}

// giveAllBack returns what a check has charged, and what a late reply has shown that it charged. The
// check's decisions become what they would be without the charge.
func (s *Stores) giveAllBack(c *Check, now Time) {
	for j := range c.Decisions {
		if c.charged.receipt.source != FromNone {
			c.Decisions[j] = c.Decisions[j].Uncharged(c.charged.receipt.Costs[j])
		}
	}
	for _, r := range [...]*Receipt{&c.charged.receipt, &c.charged.late} {
		s.GiveBack(r, now)
	}
}

// GiveBack returns what a receipt says was charged, slots included, and voids it. No request
// waits for it: if it is lost, the charge stands, and expires like any other.
func (s *Stores) GiveBack(r *Receipt, now Time) {
	if r.source == FromNone {
		return
	}
	s.slots.vacate(r)
	switch r.source {
	case FromLease: // of 1 unit
		s.leases.book.Unspend(r.lease, lease.Charge{Nonce: r.nonce, StoreMicros: r.atMicros}, now.SteadyMicros)
	case FromRedis:
		s.remote.conn.Refund(s.remote.charge(r), now.SteadyMicros)
		s.memory.forgetCharge(&r.Demand)
	case FromEmbedded, FromFallback:
		s.embedded.change(&r.Demand, r.atMicros, r.Costs, now)
	}
	r.void()
}
