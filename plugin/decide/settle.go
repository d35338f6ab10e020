package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/plugin/rule"
)

// How the response corrects a charge.

// hear takes what the headers of the upstream's response say of the charges.
//
//go:noinline
func (q *Question) hear(resp rule.Response) {
	for i := range q.Checks {
		c := &q.Checks[i].charged
		if settlement := q.Checks[i].Rule.Settle; settlement != nil && c.receipt.source != FromNone {
			c.heard = settlement.AtHeaders(resp)
		}
	}
}

// settle changes what a receipt says was charged to what it was worth. A reservation of 0
// stays. An identity that gets something back in Redis is not remembered as rejected.
func (s *Stores) settle(r *Receipt, worth rule.Worth, now Time) {
	if worth.Cost == rule.Missing {
		return
	}
	s.remote.back = s.remote.back[:0]
	for i, cost := range r.Costs {
		difference := int64(0)
		hasWindow := r.Limits.Limits[i].Algorithm.HasWindow() // slots are held as long as the request lasts
		if cost > 0 && hasWindow && (worth.All || r.Limits.TakesRuleCost(i)) {
			difference = cost - worth.Cost
		}
		s.remote.back = append(s.remote.back, difference)
	}
	more, less := slices.Min(s.remote.back) < 0, slices.Max(s.remote.back) > 0
	switch {
	case !more && !less:
	case r.source == FromRedis:
		s.remote.conn.Settle(s.remote.charge(r), s.remote.back, now.SteadyMicros)
		if less {
			s.memory.forgetCharge(&r.Demand)
		}
	default: // a leased unit is never settled
		s.embedded.change(&r.Demand, r.atMicros, s.remote.back, now)
	}
}
