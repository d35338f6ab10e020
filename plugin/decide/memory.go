package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/deny"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// holds is how long a rejection of each limit set may be remembered. Where several
// enforced rules can apply, a rejection may be due to a charge that is about to be
// given back; where a limit is leased, other workers may return units; a client that
// leaves a queue gives its place back; and a rule that settles gives back what was not
// worth its charge. Then it is remembered only briefly. What an operator sets is to be
// in force within a second.
func holds(rules *rule.Set) (holds []int64) {
	enforced := 0
	for _, r := range rules.Rules {
		if !r.Exempt && r.Mode == config.Enforce {
			enforced++
		}
	}
	for _, set := range rules.LimitSets {
		hold := int64(deny.MaxHoldMicros)
		switch {
		case enforced > 1 || set.Rule.Settle != nil || slices.ContainsFunc(set.Limits, givesBack):
			hold = deny.SharedHoldMicros
		case set.Rule.HasTerms():
			hold = deny.TermsHoldMicros
		}
		holds = append(holds, hold)
	}
	return holds
}

// givesBack reports whether workers give units of a limit back in the ordinary course
// of things.
func givesBack(l config.Limit) bool { return l.Lease != nil || l.Queue }

// recall looks for a rejection that is remembered. One is enough to conclude the
// request: Redis is not asked about it at all. What is remembered of its other rules
// is shown beside it.
func (s *Stores) recall(q *Question, now Time) (rejected bool) {
	if s.denied == nil {
		return false
	}
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Enforced() && unanswered(c) && !c.Limits.HasSlots() {
			s.recallCheck(c, now)
			rejected = rejected || c.Source == FromMemory && c.Status == Rejected
		}
	}
	if rejected {
		s.record.Count(metric.DenyCacheHit, 1)
		return true
	}
	for i := range q.Checks { // what is remembered beside a rejection admits nobody
		if c := &q.Checks[i]; c.Source == FromMemory {
			c.Status, c.Source = Unasked, FromNobody
		}
	}
	return false
}

// recallCheck answers a check by what is remembered of its identity, if that says
// anything about it.
func (s *Stores) recallCheck(c *Check, now Time) {
	e := s.denied.Find(c.Limits.Index, c.Tag)
	if e == nil {
		return
	}
	ruling, known := e.Ruling(c.asks(), now.SteadyMicros, c.Decisions)
	if known && (ruling.By.Blocks() || !s.mustTell(c, now)) {
		c.answer(FromMemory, &ruling, c.Decisions)
	}
}

// asks is what the check asks of its limits.
func (c *Check) asks() deny.Asked {
	return deny.Asked{Limits: c.Limits.Plan.Limits(), Sizes: c.Sizes, Costs: c.Costs}
}

// remember keeps what Redis said of a request that was refused. A rejection that counts
// towards a penalty is left out where several rules reject: later it would seem to be
// the only one.
func (s *Stores) remember(q *Question, several bool, now Time) {
	if s.denied == nil {
		return
	}
	for i := range q.Checks {
		if c := &q.Checks[i]; !several || !c.strikes() {
			s.rememberCheck(c, now)
		}
	}
}

func (s *Stores) rememberCheck(c *Check, now Time) {
	if c.Source != FromRedis || !c.Enforced() || c.By == algo.ByFree || c.Limits.HasSlots() {
		return
	}
	i := c.Limits.Index
	if by, left := c.lastingBlock(); by.Blocks() {
		s.denied.RememberBlock(i, c.Tag, deny.Block{By: by, LeftMicros: left}, now.SteadyMicros, c.AtMicros, s.holds[i])
		return
	}
	s.denied.Remember(i, c.Tag, c.asks(), c.Decisions, now.SteadyMicros, c.AtMicros, s.holds[i])
}

// lastingBlock is the block that the identity is under from now on, if it is.
func (c *Check) lastingBlock() (by algo.By, leftMicros int64) {
	if c.EarnedMicros > 0 {
		return algo.ByPenalty, c.EarnedMicros
	}
	return c.By, c.LeftMicros
}

// forget drops what is remembered of an identity that something was given back to.
func (s *Stores) forget(set int, tag []byte) {
	if s.denied != nil {
		s.denied.Forget(set, tag)
	}
}
