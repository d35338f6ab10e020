package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/deny"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// holds is how long a rejection of each limit set may be remembered. Where several
// enforced rules can apply, a rejection may be due to a charge that is about to be
// given back; where a limit is leased, other workers may return units. Then it is
// remembered only briefly.
func holds(rules *rule.Set) (holds []int64) {
	enforced := 0
	for _, r := range rules.Rules {
		if !r.Exempt && r.Mode == config.Enforce {
			enforced++
		}
	}
	for _, set := range rules.LimitSets {
		hold := int64(deny.MaxHoldMicros)
		if enforced > 1 || set.Limits[0].Lease != nil {
			hold = deny.SharedHoldMicros
		}
		holds = append(holds, hold)
	}
	return holds
}

// recall looks for a rejection that is remembered. One is enough to conclude the
// request: Redis is not asked about it at all. What is remembered of its other rules
// is shown beside it.
func (s *Stores) recall(q *Question, now Time) (rejected bool) {
	if s.denied == nil {
		return false
	}
	for i := range q.Checks {
		c := &q.Checks[i]
		if !c.Enforced() || !unanswered(c) {
			continue
		}
		e := s.denied.Find(c.Limits.Index, c.Tag)
		if e == nil {
			continue
		}
		asked := deny.Asked{Limits: s.planOf(c.Limits, c.Sizes).Limits(), Costs: c.Costs}
		rejects, known := e.Decide(asked, now.SteadyMicros, c.Decisions)
		if !known {
			continue
		}
		c.Source, c.AtMicros = FromMemory, e.StoreMicros+now.SteadyMicros-e.AtMicros
		if rejects {
			c.Status, rejected = Rejected, true
		} else {
			c.Status = Allowed
		}
	}
	if rejected {
		s.record.Count(metric.DenyCacheHit, 1)
	} else {
		s.unrecall(q)
	}
	return rejected
}

// rejectByZero answers the checks that a limit of 0 rejects: nobody needs to be
// asked. It reports whether an enforced rule rejects, which concludes the request.
func (q *Question) rejectByZero() (rejected bool) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if !c.hasZero() {
			continue
		}
		for j := range c.Decisions {
			if l := c.Limit(j); l.Units == 0 && c.Costs[j] > 0 {
				c.Decisions[j] = algo.Decision{RetryAfterMicros: algo.Never}
			} else {
				c.Decisions[j] = algo.Decision{Allowed: true} // it was not asked, and is not shown
			}
		}
		c.Status, c.Source = Rejected, FromLimit
		rejected = rejected || c.Enforced()
	}
	return rejected
}

// hasZero reports whether a limit of the check is 0, and it wants something of it.
func (c *Check) hasZero() bool {
	for j := range c.Costs {
		if l := c.Limit(j); l.Units == 0 && c.Costs[j] > 0 {
			return true
		}
	}
	return false
}

// Shown reports whether the client is shown a decision: all that were made.
func (c *Check) Shown(i int) bool { return c.Source != FromLimit || !c.Decisions[i].Allowed }

// unrecall forgets what recall found: what was remembered beside a rejection admits
// nobody.
func (s *Stores) unrecall(q *Question) {
	for i := range q.Checks {
		if c := &q.Checks[i]; c.Source == FromMemory {
			c.Status, c.Source = Unasked, FromNobody
		}
	}
}

// remember keeps what Redis said when a request was rejected.
func (s *Stores) remember(c *Check, now Time) {
	if s.denied == nil || c.Source != FromRedis || !c.Enforced() {
		return
	}
	i := c.Limits.Index
	asked := deny.Asked{Limits: s.planOf(c.Limits, c.Sizes).Limits(), Costs: c.Costs}
	s.denied.Remember(i, c.Tag, asked, c.Decisions, now.SteadyMicros, c.AtMicros, s.holds[i])
}

// forget drops what is remembered of an identity that something was given back to.
func (s *Stores) forget(set int, tag []byte) {
	if s.denied != nil {
		s.denied.Forget(set, tag)
	}
}
