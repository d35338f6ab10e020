package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/metric"
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

// GiveBack returns what a receipt says was charged, and voids it. Nobody waits for
// it: if it is lost, the charge stands, and expires like any other.
func (s *Stores) GiveBack(r *Receipt, now Time) {
	given := *r
	*r = Receipt{}
	if given.source != FromNobody {
		s.calendars.fit(given.limits, given.sizes, given.atMicros)
	}
	switch given.source {
	case FromRedis:
		s.conn.Refund(s.chargeOf(&given), now.SteadyMicros)
		s.forget(given.limits.Index, given.tag)
	case FromLease:
		s.leases.Unspend(given.lease, lease.Charge{Nonce: given.nonce, StoreMicros: given.atMicros}, now.SteadyMicros)
	case FromEmbedded, FromFallback:
		// The store may be contended; then the charge stands.
		plan := s.planOf(given.limits, given.sizes)
		_ = s.embedded.RefundEach(plan, given.tag, given.atMicros, now.UnixMicros, given.costs)
	}
}

// giveAllBack returns what all checks of a question have charged, and makes sure
// that what late replies turn out to have charged is returned, too.
func (s *Stores) giveAllBack(q *Question, now Time) {
	q.refused = true
	for i := range q.Checks {
		s.GiveBack(&q.Checks[i].receipt, now)
		s.GiveBack(&q.Checks[i].late, now)
		s.drop(&q.Checks[i], now)
	}
}

// Leave gives back the place in a queue, and all else that a request has charged
// that never reached the upstream: see the effect GiveBack.
func (s *Stores) Leave(q *Question, now Time) {
	s.queue.drop(q)
	s.giveAllBack(q, now)
	s.record.Count(metric.TurnExpired, 1)
}
