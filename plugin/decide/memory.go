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
	name   []byte  // scratch, of a part
}

// newMemory makes the memory of a configuration. Where several enforced rules can apply, a rejection may
// be due to a charge that is about to be given back; where a limit is leased, other workers may return units;
// a client that leaves a queue gives its place back; and a rule that settles gives back what was not
// worth its charge. Then a rejection is remembered only briefly. What an operator sets is to be
// in force within a second.
func newMemory(cfg *config.Config, rules *rule.Set, chance rand.Source) memory {
	m := memory{denied: &deny.Cache{}, ttls: make([]int64, len(rules.LimitSets))}
	if cfg.Redis == nil || cfg.DenyCacheSize <= 0 {
		return m
	}
	m.denied = deny.New(int(cfg.DenyCacheSize), chance.Uint64())
	enforced := 0
	for _, r := range rules.Rules {
		if !r.Exempt && r.Enforced {
			enforced++
		}
	}
	for i, set := range rules.LimitSets {
		givesBack := slices.ContainsFunc(set.Limits, func(l config.Limit) bool { return l.Lease != nil || l.Queue })
		switch {
		case enforced > 1 || set.Rule.Settle != nil || givesBack:
			m.ttls[i] = deny.SharedTTLMicros
		case set.Rule.HasTerms:
			m.ttls[i] = deny.TermsTTLMicros
		default:
			m.ttls[i] = deny.RejectionTTLMicros
		}
	}
	return m
}

// recall answers a check from what the worker remembers of the parts of its identity, unless Redis has to
// count the rejection at once. It does not for slots, which come free at any moment, nor for a shadow rule,
// whose rejection concludes nothing. A part of which it remembers nothing is not shown.
func (s *Stores) recall(c *Check, now Time) (r algo.Ruling, known bool) {
	m, out := &s.memory, c.Decisions
	if !c.Rule.Enforced || c.Limits.HasSlots {
		return r, false
	}
	whole := m.denied.Find(c.Limits.ID, c.Tag)
	if whole != nil {
		if r, known = whole.Blocked(now.SteadyMicros); known {
			return r, true
		}
	}
	for i := range out {
		out[i] = algo.Decision{Allowed: true, Hidden: true}
	}
	r.Allowed = true
	for i := range c.Limits.Memories {
		p, e := &c.Limits.Memories[i], whole
		name, applies := c.Name(p, &m.name)
		if len(name) > len(c.Tag) {
			e = m.denied.Find(c.Limits.ID, name)
		}
		if !applies || e == nil {
			continue
		}
		said, ok := e.Ruling(&c.Demand, p, now.SteadyMicros, out)
		if !ok {
			for _, limit := range p.Limits {
				out[limit] = algo.Decision{Allowed: true, Hidden: true}
			}
			continue
		}
		r.AtMicros, r.Allowed = max(r.AtMicros, said.AtMicros), r.Allowed && said.Allowed
		known = known || !said.Allowed || len(c.Limits.Memories) == 1
	}
	return r, known && (r.By.Blocks() || c.Rule.Terms.Penalty == nil || !s.penalties.mustTell(&c.Ask, now))
}

// remember keeps what Redis said of a check whose request was refused, or whose rejection was excused.
func (m *memory) remember(c *Check, now Time) {
	must.Hold(c.charged.receipt.source == FromNone, "a charge is given back before its rejection is remembered")
	i := c.Limits.ID
	if c.Source != FromRedis || !c.Rule.Enforced || c.By == algo.ByFree || c.Limits.HasSlots || m.ttls[i] == 0 {
		return
	}
	if by, leftMicros := blockOf(&c.Ruling); by.Blocks() {
		m.denied.RememberBlock(i, c.Tag, deny.Block{By: by, LeftMicros: leftMicros}, now.SteadyMicros, c.AtMicros, m.ttls[i])
		return
	}
	for n := range c.Limits.Memories {
		p := &c.Limits.Memories[n]
		if name, applies := c.Name(p, &m.name); applies {
			m.denied.Remember(name, &c.Demand, p, c.Decisions, now.SteadyMicros, c.AtMicros, m.ttls[i])
		}
	}
}

// blockOf is the block that a ruling leaves behind, for as long as it lasts: one that a rejection has earned
// begins with it.
func blockOf(r *algo.Ruling) (by algo.By, leftMicros int64) {
	if r.EarnedMicros > 0 {
		return algo.ByPenalty, r.EarnedMicros
	}
	return r.By, r.LeftMicros
}

// forgetCharge drops the memory of the parts that a charge was given back to.
func (m *memory) forgetCharge(d *rule.Demand) {
	m.denied.Forget(d.Limits.ID, d.Tag)
	for i := range d.Limits.Memories {
		if name, applies := d.Name(&d.Limits.Memories[i], &m.name); applies && len(name) > len(d.Tag) {
			m.denied.Forget(d.Limits.ID, name)
		}
	}
}
