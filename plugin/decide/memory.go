package decide

import (
	"math/rand/v2"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/deny"
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

// askMemory asks the memory of rejections about one check.
func (s *Stores) askMemory(c *Check, now Time) {
	r, ok := s.memory.recall(&c.Ask, c.Decisions, now)
	if ok && (r.By.Blocks() || !s.penalties.mustTell(&c.Ask, now)) {
		c.ruled(FromMemory, &r, c.Decisions, 0)
	}
}

// recall answers a check from what the worker remembers of its identity. It does not for slots,
// which come free at any moment, nor for a shadow rule, whose rejection concludes nothing.
func (m *memory) recall(a *Ask, out []algo.Decision, now Time) (r algo.Ruling, known bool) {
	if !a.Enforced() || a.Limits.HasSlots() {
		return r, false
	}
	if a.Values != nil && !a.Limits.Pays() {
		return m.recallParts(a, out, now)
	}
	if a.Values != nil {
		if e := m.denied.Find(a.Limits.ID, a.Tag); e != nil {
			if r, known = e.Blocked(now.SteadyMicros); known {
				return r, true
			}
		}
	}
	e := m.denied.Find(a.Limits.ID, m.parts.wholeName(a))
	if e == nil {
		return r, false
	}
	return e.Ruling(a.asks(), now.SteadyMicros, out)
}
