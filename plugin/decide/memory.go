package decide

import (
	"math/rand/v2"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/deny"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// memory is the layer that remembers rejections. Off, it keeps none.
type memory struct {
	denied *deny.Cache
	ttls   []int64 // by rule.LimitSet.ID: how long a rejection may be remembered, us
	parts  scratch // see parts.go
}

func newMemory(cfg *config.Config, rules *rule.Set, chance rand.Source) memory {
	if cfg.Redis == nil || cfg.DenyCacheSize <= 0 {
		return memory{denied: &deny.Cache{}, ttls: make([]int64, len(rules.LimitSets))}
	}
	return memory{denied: deny.New(int(cfg.DenyCacheSize), chance.Uint64()), ttls: ttls(rules)}
}

// ttls is how long a rejection of each limit set may be remembered. Where several
// enforced rules can apply, a rejection may be due to a charge that is about to be
// given back; where a limit is leased, other workers may return units; a client that
// leaves a queue gives its place back; and a rule that settles gives back what was not
// worth its charge. Then it is remembered only briefly. What an operator sets is to be
// in force within a second.
func ttls(rules *rule.Set) (ttls []int64) {
	enforced, purses := 0, 0
	for _, r := range rules.Rules {
		switch {
		case r.Exempt || r.Mode != config.Enforce:
		case r.Only: // it gives back what it has charged only if another purse does not pay
			purses++
		default:
			enforced++
		}
	}
	for _, set := range rules.LimitSets {
		ttl := int64(deny.RejectionTTLMicros)
		switch {
		case enforced > 1 || purses > 1 || set.Rule.Settle != nil || slices.ContainsFunc(set.Limits, givesBack):
			ttl = deny.SharedTTLMicros
		case set.Rule.HasTerms():
			ttl = deny.TermsTTLMicros
		}
		ttls = append(ttls, ttl)
	}
	return ttls
}

// givesBack reports whether workers give units of a limit back in the ordinary course
// of things.
func givesBack(l config.Limit) bool { return l.Lease != nil || l.Queue }

// recall answers a check from what the worker remembers of its identity. It does not for slots,
// which come free at any moment, nor for a shadow rule, whose rejection concludes nothing.
func (m *memory) recall(a *Ask, out []algo.Decision, now Time) (r algo.Ruling, known bool) {
	if !a.Enforced() || a.Limits.HasSlots() {
		return r, false
	}
	if a.Values != nil {
		return m.recallParts(a, out, now)
	}
	e := m.denied.Find(a.Limits.ID, a.Tag)
	if e == nil {
		return r, false
	}
	return e.Ruling(a.asks(), now.SteadyMicros, out)
}

// asks returns the check's demand on its limits.
func (a *Ask) asks() deny.Asked {
	return deny.Asked{Limits: a.Limits.Plan.Limits(), Sizes: a.Sizes, Costs: a.Costs}
}

// remember keeps what Redis said of a check whose request was refused. A rejection that
// counts towards a penalty is left out if several rules reject, because on replay only this
// rule would seem to reject.
func (m *memory) remember(c *Check, several bool, now Time) {
	must.Hold(c.charged.receipt.source == FromNobody, "a charge is given back before its rejection is remembered")
	i := c.Limits.ID
	if c.Source != FromRedis || !c.Enforced() || c.By == algo.ByFree || c.Limits.HasSlots() || m.ttls[i] == 0 {
		return
	}
	if several && c.strikes() {
		return
	}
	if by, left := c.lastingBlock(); by.Blocks() {
		m.denied.RememberBlock(i, c.Tag, deny.Block{By: by, LeftMicros: left}, now.SteadyMicros, c.AtMicros, m.ttls[i])
		return
	}
	if c.Values != nil {
		m.rememberParts(c, now)
		return
	}
	m.denied.Remember(i, c.Tag, c.asks(), c.Decisions, now.SteadyMicros, c.AtMicros, m.ttls[i])
}

// lastingBlock is the block that the identity is under from now on, if it is.
func (s *Said) lastingBlock() (by algo.By, leftMicros int64) {
	if s.EarnedMicros > 0 {
		return algo.ByPenalty, s.EarnedMicros
	}
	return s.By, s.LeftMicros
}

// forgetCharge drops the memory of those that a charge was given back to.
func (m *memory) forgetCharge(r *Receipt) {
	m.forget(r.limits.ID, r.tag)
	if r.values != nil {
		m.forgetParts(r)
	}
}

// forget drops the memory of an identity that was given something back.
func (m *memory) forget(set rule.LimitSetID, tag []byte) { m.denied.Forget(set, tag) }
