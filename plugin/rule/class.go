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

// ceilingOf is the percent that are there for the class of the request. Who sends a value that is
// too long to be looked at is in the lowest class.
func (m *Matcher) ceilingOf(c *classes) int64 {
	switch r := m.valueOf(&c.source); r.state {
	case present:
		if percent := c.Of(r.value); percent > 0 {
			return percent
		}
	case tooLong:
		return c.lowest
	}
	return c.other
}
