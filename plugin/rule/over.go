package rule

import (
	"slices"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/pattern"
)

// Over is a compiled config.Over: what becomes of a request that a rule's limits reject.
type Over struct {
	// Headers are set on the request.
	Headers [][2]string
	// Purse pays; nil: none has to.
	Purse *Rule
}

// compileOver compiles c, nil for nil. linkPurses adds the purse.
func (s *Set) compileOver(c *config.Over) *Over {
	if c == nil {
		return nil
	}
	for _, h := range c.Headers {
		if name := config.SameHeader(h[0]); !slices.Contains(s.OverHeaders, name) {
			s.OverHeaders = append(s.OverHeaders, name)
		}
	}
	return &Over{Headers: c.Headers}
}

// linkPurses gives each Over its purse.
func (s *Set) linkPurses(rules []config.Rule) {
	for i := range rules {
		if c := &rules[i]; c.Over != nil && c.Over.Charge != "" && c.Mode != config.Off {
			s.named(c.Name).Over.Purse = s.named(c.Over.Charge)
		}
	}
}

// named is the rule of a name; nil if there is none.
func (s *Set) named(name string) *Rule {
	if i := slices.IndexFunc(s.Rules, func(r *Rule) bool { return r.Name == name }); i >= 0 {
		return s.Rules[i]
	}
	return nil
}

// ApplyPurse reports whether a purse applies to a request: its match holds, and its key can be
// built. The result is valid until m's next Apply or ApplyPurse. Where a value is too long to be
// looked at, a purse does not apply.
func (s *Set) ApplyPurse(req Request, m *Matcher, of *Rule) (Applied, bool) {
	m.reset(s, req)
	for i := range s.purses {
		if c := &s.purses[i]; c.rule == of {
			if m.matches(&c.match) != pattern.Yes {
				return Applied{}, false
			}
			return m.apply(c)
		}
	}
	return Applied{}, false
}
