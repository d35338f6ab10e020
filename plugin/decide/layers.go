package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/metric"
)

// One layer is asked about the checks that have no answer.

// ask asks one layer about the checks of a question that have no answer. It reports whether the
// request can be concluded, as a rule rejects it: then no other layer is asked.
func (s *Stores) ask(l layer, q *Question, now Time) (rejects bool) {
	for i := range q.Checks {
		if c := &q.Checks[i]; isUnasked(c) {
			s.askAbout(c, l, q, now)
		}
	}
	rejects = q.first(rejectsAlone) != nil
	switch {
	case l != memoryLayer:
	case rejects || q.over && keepsRemembered(q):
		s.record.Count(metric.DenyCacheHit, 1)
		return true
	default: // a remembered decision that allows is shown with a rejection, but admits no request
		q.unask(FromMemory)
	}
	return rejects
}

// askAbout asks one layer about one check.
func (s *Stores) askAbout(c *Check, l layer, q *Question, now Time) {
	var r algo.Ruling
	var charge lease.Charge
	ok := false
	switch l {
	case zeroLayer:
		ok = c.rejectZero(c.Decisions)
	case leaseLayer:
		charge, ok = s.leases.spend(&c.Ask, c.Decisions, now)
		r = algo.Ruling{AtMicros: charge.StoreMicros, Allowed: true}
	case memoryLayer:
		s.askMemory(c, now)
	case onlyLayer:
		r, ok = s.embedded.decide(c, true, now)
	}
	if ok {
		c.ruled(sources[l], &r, c.Decisions, charge.Nonce)
		s.slots.occupy(&c.charged.receipt, now.SteadyMicros)
	}
}
