package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// How the response corrects a charge.

// Unfinished reports whether the end of the request changes anything in the stores. For most
// it does not, and their end costs nothing.
func (q *Question) Unfinished() bool {
	switch q.state {
	case Held:
		return true
	case Passed, Redirected, Responded:
		return q.mustFinish()
	}
	return false
}

// mustFinish reports whether the stores hold something for the request until it is over.
//
//go:inline
func (q *Question) mustFinish() bool { return q.settles || q.first(occupiesSlots) != nil }

// Respond takes what the headers of the upstream's response say of the charges.
//
//go:inline
func (q *Question) Respond(resp rule.Response) {
	if q.settles {
		q.hear(resp)
	}
}

//go:noinline
func (q *Question) hear(resp rule.Response) {
	for i := range q.Checks {
		c := &q.Checks[i].charged
		if settlement := q.Checks[i].Rule.Settle; settlement != nil && c.receipt.source != FromNone {
			c.heard = settlement.AtHeaders(resp)
		}
	}
}

// Finish ends what an admitted request holds until it is over: its stream has ended,
// or it was admitted after that. If no response came, nothing is read, and resp may be nil.
//
//go:inline
func (s *Stores) Finish(q *Question, resp rule.Response, now Time) {
	must.Hold(!q.refused, "what a refused request held was given back at once")
	if q.mustFinish() {
		s.ended(q, resp, now) // features.go
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
