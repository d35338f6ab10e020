package rule

import (
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// cost is a compiled config.Cost.
type cost struct {
	slot     int // of the header; -1 for a constant
	fallback int64
	max      int64
}

func (s *Set) compileCost(c *config.Cost) cost {
	slot := -1
	if c.Header != "" {
		slot = s.headerSlot(c.Header)
	}
	return cost{slot: slot, fallback: c.Default, max: c.Max}
}

// costOf is what the request consumes.
func (m *Matcher) costOf(c *cost) int64 {
	if c.slot < 0 {
		return c.fallback
	}
	value := m.headerOf(c.slot).value
	if !m.afford(len(value) * unitsToCount) {
		return c.max
	}
	return parseCost(value, c.fallback, c.max)
}

// parseCost reads digits: at most limit, however many there are. Anything else is
// fallback.
func parseCost(s string, fallback, limit int64) int64 {
	if s == "" {
		return fallback
	}
	n := int64(0)
	for i := range len(s) {
		if !text.IsDigit(s[i]) {
			return fallback
		}
		n = min(n*10+int64(s[i]-'0'), limit+1) // no overflow: limit is at most 1e6
	}
	return min(n, limit)
}
