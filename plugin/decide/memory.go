package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/deny"
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

// Shown reports whether the client is shown a decision: all that were made. Whoever is
// free of limits is shown none.
func (c *Check) Shown(i int) bool {
	return c.By != algo.ByFree && (c.Source != FromLimit || !c.Decisions[i].Allowed)
}

// remember keeps what Redis said when a request was rejected.
func (s *Stores) remember(c *Check, now Time) {
	if s.denied == nil || c.Source != FromRedis || !c.Enforced() || c.By == algo.ByFree || c.Limits.HasSlots() {
		return
	}
	i := c.Limits.Index
	if by, left := c.lastingBlock(); by.Blocks() {
		s.denied.RememberBlock(i, c.Tag, deny.Block{By: by, LeftMicros: left}, now.SteadyMicros, c.AtMicros, s.holds[i])
		return
	}
	asked := deny.Asked{Limits: s.planOf(c.Limits, c.Sizes).Limits(), Costs: c.Costs}
	s.denied.Remember(i, c.Tag, asked, c.Decisions, now.SteadyMicros, c.AtMicros, s.holds[i])
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
