package decide

import "github.com/sluiceproxy/sluice/plugin/rule"

// This file is what the response makes of what a request has charged.

// Unfinished reports whether anything is left to be done in the stores when the
// request is over. For most it is not, and their end costs nothing.
func (q *Question) Unfinished() bool { return q.settles || q.first(holdsSlots) != nil }

// Respond takes what the headers of the upstream's response say of the charges.
func (q *Question) Respond(resp rule.Response) {
	if !q.settles {
		return
	}
	for i := range q.Checks {
		if c := &q.Checks[i]; c.Rule.Settle != nil && c.receipt.source != FromNobody {
			c.heard = c.Rule.Settle.AtHeaders(resp)
		}
	}
}

// Finish ends what an admitted request holds until it is over: its stream has ended,
// or it was admitted after that. Of a response that never came nothing is read. A
// request for which Unfinished is false holds nothing, and needs no time.
func (s *Stores) Finish(q *Question, resp rule.Response, now Time) {
	if !q.Unfinished() {
		return
	}
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Rule.Settle != nil && c.receipt.source != FromNobody {
			s.settle(&c.receipt, c.Rule.Settle.Worth(c.heard, resp), now)
		}
		s.letGo(c, now)
	}
}

// settle changes what a receipt says was charged to what it was worth, and voids it.
// A reservation of 0 stays.
func (s *Stores) settle(r *Receipt, worth rule.Worth, now Time) {
	settled := *r
	*r = Receipt{}
	if worth.Cost == rule.Missing {
		return
	}
	s.differences = s.differences[:0]
	some := false
	for i, cost := range settled.costs {
		difference := int64(0)
		if cost > 0 && settles(settled.limits, i, worth) {
			difference = cost - worth.Cost
		}
		s.differences = append(s.differences, difference)
		some = some || difference != 0
	}
	if some {
		settled.costs = s.differences
		s.change(&settled, true, now)
	}
}

// settles reports whether a limit is settled to a worth. Slots never are: they are held
// for as long as the request lasts, whatever it is worth.
func settles(limits *rule.LimitSet, i int, worth rule.Worth) bool {
	return limits.Limits[i].Algorithm.HasWindow() && (worth.All || limits.TakesRuleCost(i))
}
