package decide

import (
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/slots"
)

// Conclude decides a question once none of its checks is waiting, and updates the stores: a
// request that is refused consumes nothing. The Worker acts on the verdict in Envoy.
func (s *Stores) Conclude(q *Question, now Time) Verdict {
	must.Hold(!q.concluded && q.waiting == 0, "a request is concluded once, when no check waits")
	s.decideRest(q, now)
	if q.over {
		q.excuse() // verdict.go
	}
	v := q.Verdict() // verdict.go
	if q.asking != rule.NotForQuota && v.Event != Refused {
		if !s.alone() {
			s.fallBack(q, reportsLocally, now)
		}
		v = q.served(v) // quota.go
	}
	q.concluded, q.verdict = true, v
	s.record.Concluded(q, v)
	if v.Event != Refused {
		if q.over {
			s.memory.rememberOver(q, now)
		}
		return v
	}
	q.refused = true // what late replies turn out to have charged is given back, too
	for i := range q.Checks {
		c := &q.Checks[i]
		s.penalties.judge(c, v.Several, q.mustDefer(), now) // strikes count whatever is given back
		s.giveAllBack(c, now)
		s.memory.remember(c, v.Several, now)
	}
	return v
}

// decideRest decides what Redis has left undecided, as far as it can be.
//
//go:inline
func (s *Stores) decideRest(q *Question, now Time) {
	if s.alone() {
		return
	}
	if q.over {
		s.recallOver(q, now)
	}
	if q.first(isUndecided) != nil {
		s.overrides.refit(q, now)
		s.endOverdue(q, now) // overdue.go
	}
	s.fallBack(q, failsLocally, now) // fallback.go
}

// recallOver lets remembered rejections stand for what Redis has left undecided.
func (s *Stores) recallOver(q *Question, now Time) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if !excuses(c.Rule) || !isUndecided(c) {
			continue
		}
		if s.askMemory(q, c, now); c.Status == Allowed {
			c.Status, c.Source = Undecided, FromNone
		}
	}
}

// Leave gives back all that a request has charged that never reached the upstream: see the
// effect GiveBack.
//
//go:noinline
func (s *Stores) Leave(q *Question, now Time) {
	must.Hold(q.concluded && !q.refused, "who leaves without a verdict, or refused, has nothing to give back here")
	q.refused = true
	for i := range q.Checks {
		s.giveAllBack(&q.Checks[i], now)
	}
	s.record.Count(metric.TurnExpired, 1)
}

// Receipt says what one check has charged, and where: all that a store needs to take it back.
// The zero Receipt stands for no charge. A Receipt with slots must not be moved.
type Receipt struct {
	source      Source
	rule.Demand              // with the calendar windows that it was charged in
	atMicros    int64        // when it was charged, on the clock of the store that did
	nonce       int64        // FromRedis and FromLease: of the call that charged it
	lease       *lease.Lease // FromLease: which lease the unit is of
	slot        slots.Slot   // what it occupies until the request is over
	further     []slots.Slot // what it occupies of further limits
	self        *Receipt     // where it was filled, for the assertion that there is no copy of it
}

// giveAllBack returns what a check has charged, and what it has turned out to have.
func (s *Stores) giveAllBack(c *Check, now Time) {
	c.uncharge()
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
		s.leases.unspend(r, now)
	case FromRedis:
		s.remote.refund(r, now)
		s.memory.forgetCharge(&r.Demand)
	case FromEmbedded, FromFallback:
		s.embedded.change(&r.Demand, r.atMicros, r.Costs, now)
	}
	r.void()
}

// void makes r the receipt of nothing, as its charge is given back or stands for good.
func (r *Receipt) void() {
	must.Hold(!must.On || r.source == FromNone || r.self == r, "a receipt stays where it is, and is given back once")
	must.Hold(!r.slot.Held(), "the receipt of occupied slots is kept")
	*r = Receipt{}
}

// uncharge makes the decisions on a check those that would hold without its charge.
func (c *Check) uncharge() {
	if c.charged.receipt.source == FromNone {
		return
	}
	for j := range c.Decisions {
		c.Decisions[j] = c.Decisions[j].Uncharged(c.charged.receipt.Costs[j])
	}
}

// vacate notes that the slots of a receipt, if any, are free.
func (f *inFlight) vacate(r *Receipt) {
	if !r.slot.Held() {
		return
	}
	for i := range r.further {
		f.book.Vacate(&r.further[i])
	}
	f.book.Vacate(&r.slot)
}

// forgetCharge drops the memory of the parts that a charge was given back to.
func (m *memory) forgetCharge(d *rule.Demand) {
	m.forget(d.Limits.ID, d.Tag)
	for i := range d.Limits.Memories {
		if name, applies := d.Name(&d.Limits.Memories[i], &m.name); applies && len(name) > len(d.Tag) {
			m.forget(d.Limits.ID, name)
		}
	}
}

// forget drops the memory of an identity that was given something back.
func (m *memory) forget(set rule.LimitSetID, name []byte) { m.denied.Forget(set, name) }
