package rule

import (
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config"
)

// cost is a compiled config.Cost.
type cost struct {
	slot     int // of the header; -1 for a constant
	fallback int64
	max      int64
}

func (s *Set) cost(c *config.Cost) cost {
	slot := -1
	if c.Header != "" {
		slot = s.headerSlot(c.Header)
	}
	return cost{slot: slot, fallback: c.Default, max: c.Max}
}

// cost is what the request consumes.
func (m *Matcher) cost(c *cost) int64 {
	if c.slot < 0 {
		return c.fallback
	}
	value, _ := m.header(c.slot)
	return parseCost(value, c.fallback, c.max)
}

// parseCost reads digits: at most limit, however many there are. What is not all
// digits is fallback.
func parseCost(s string, fallback, limit int64) int64 {
	if s == "" || strings.Trim(s, "0123456789") != "" {
		return fallback
	}
	n := int64(0)
	for i := range len(s) {
		n = n*10 + int64(s[i]-'0') // no overflow: n was at most limit, 1e6
		if n > limit {
			return limit
		}
	}
	return n
}
