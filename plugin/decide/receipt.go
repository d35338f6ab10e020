package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Receipt is what one check has charged, and where: all that a store needs to take
// it back. The zero Receipt is of nothing.
type Receipt struct {
	source   Source
	limits   *rule.LimitSet
	tag      []byte
	costs    []int64
	sizes    []algo.Size
	atMicros int64        // when it was charged, on the clock of the store that did
	nonce    int64        // FromRedis and FromLease: of the call that charged it
	lease    *lease.Lease // FromLease: which lease the unit is of
}

// giveAllBack returns what all checks of a question have charged, and makes sure
// that what late replies turn out to have charged is returned, too.
func (s *Stores) giveAllBack(q *Question, now Time) {
	q.refused = true
	for i := range q.Checks {
		c := &q.Checks[i]
		c.uncharge()
		s.GiveBack(&c.receipt, now)
		s.GiveBack(&c.late, now)
		s.drop(c, now)
	}
}

// uncharge makes the decisions on a check those that would hold without its charge.
func (c *Check) uncharge() {
	if c.receipt.source == FromNobody {
		return
	}
	for j := range c.Decisions {
		c.Decisions[j] = c.Decisions[j].Uncharged(c.Costs[j])
	}
}

// GiveBack returns what a receipt says was charged, and voids it. Nobody waits for
// it: if it is lost, the charge stands, and expires like any other.
func (s *Stores) GiveBack(r *Receipt, now Time) {
	given := *r
	*r = Receipt{}
	if given.source != FromNobody {
		s.change(&given, false, now)
	}
}

// change takes a receipt's costs back from the store that it is of, or charges what is
// below 0 on top. Settlements are in no hurry: they leave together. Of an identity that
// gets something back in Redis, what is remembered is forgotten.
func (s *Stores) change(r *Receipt, settles bool, now Time) {
	s.calendars.fit(r.limits, r.sizes, r.atMicros)
	switch r.source {
	case FromEmbedded, FromFallback:
		// The store may be contended; then the charge stands.
		plan := s.planOf(r.limits, r.sizes)
		_ = s.embedded.RefundEach(plan, r.tag, r.atMicros, now.UnixMicros, r.costs)
	case FromLease: // of 1 unit, which is never settled
		s.leases.Unspend(r.lease, lease.Charge{Nonce: r.nonce, StoreMicros: r.atMicros}, now.SteadyMicros)
	case FromRedis:
		charge := redis.Charge{
			Script: s.scripts[r.limits.Index], Tag: r.tag, Costs: r.costs, Sizes: r.sizes,
			Nonce: r.nonce, AtMicros: r.atMicros,
		}
		if settles {
			s.conn.Settle(charge, now.SteadyMicros)
		} else {
			s.conn.Refund(charge, now.SteadyMicros)
		}
		if slices.Max(r.costs) > 0 {
			s.forget(r.limits.Index, r.tag)
		}
	}
}

// Leave gives back the place in a queue, and all else that a request has charged
// that never reached the upstream: see the effect GiveBack.
func (s *Stores) Leave(q *Question, now Time) {
	s.queue.drop(q)
	s.giveAllBack(q, now)
	s.record.Count(metric.TurnExpired, 1)
}
