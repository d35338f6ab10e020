package rule

import (
	"slices"

	"github.com/sluiceproxy/sluice/plugin/config"
)

// Over is a compiled config.Over: what becomes of a request that a rule's limits reject.
type Over struct {
	// Headers are set on the request.
	Headers [][2]string
	// Pays: limits that follow the rule's own in each of its limit sets have to pay. Otherwise the
	// request goes on as it is.
	Pays bool
}

// compileOver compiles c, nil for nil.
func (s *Set) compileOver(c *config.Over) *Over {
	if c == nil {
		return nil
	}
	for _, h := range c.Headers {
		if name := config.SameHeader(h[0]); !slices.Contains(s.OverHeaders, name) {
			s.OverHeaders = append(s.OverHeaders, name)
		}
	}
	return &Over{Headers: c.Headers, Pays: len(c.Limits) > 0}
}

// withOver is a rule's limits, and behind them those that may pay for them: not in shadow, where
// nobody is refused.
func withOver(c *config.Rule, limits []config.Limit) []config.Limit {
	if c.Over == nil || c.Mode != config.Enforce || len(limits) == 0 {
		return limits
	}
	return slices.Concat(limits, c.Over.Limits)
}
