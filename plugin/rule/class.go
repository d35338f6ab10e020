package rule

import "github.com/sluiceproxy/sluice/plugin/config"

// classes is a compiled config.Classes.
type classes struct {
	*config.Classes
	source component
	lowest int64 // percent
	other  int64 // percent of a request whose source names no class
}

// compileClasses is nil for nil.
func (s *Set) compileClasses(r *Rule, c *config.Classes) *classes {
	if c == nil {
		return nil
	}
	return &classes{Classes: c, source: s.compileComponent(r, &c.Source), lowest: c.Lowest(), other: c.Of(c.Default)}
}

// ceilingOf is the percent that are there for the class of the request: the lowest where its value
// is unknown.
func (m *Matcher) ceilingOf(c *classes) int64 {
	r := m.valueOf(&c.source)
	if r.state.isUnknown() {
		return c.lowest
	}
	if percent := c.Of(r.value); percent > 0 && r.state == present {
		return percent
	}
	return c.other
}
