package rule

import (
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config"
)

// match is a compiled config.Match: what is nil or empty always holds.
type match struct {
	path    *config.StringMatch
	host    *config.StringMatch
	methods []string
	headers []headerMatch
	not     *match
}

type headerMatch struct {
	slot  int
	match *config.StringMatch
}

// match compiles c, which must outlive the Set. Paths and hosts are compared in
// the spelling that requests' are brought into; the configuration's hosts are in
// lower case already.
func (s *Set) match(c *config.Match) match {
	m := match{
		path:    spelled(c.Path, appendCanonical),
		host:    c.Host,
		methods: c.Methods,
	}
	if c.Host != nil && c.Host.Op == config.Exact {
		m.host = spelled(c.Host, appendHost)
	}
	for i := range c.Headers {
		h := &c.Headers[i]
		m.headers = append(m.headers, headerMatch{slot: s.headerSlot(h.Name), match: &h.Match})
	}
	if c.Not != nil {
		not := s.match(c.Not)
		m.not = &not
	}
	return m
}

// spelled is sm with its value as spell writes it.
func spelled(sm *config.StringMatch, spell func(dst []byte, value string) []byte) *config.StringMatch {
	if sm == nil {
		return nil
	}
	out := *sm
	out.Value = string(spell(nil, sm.Value))
	return &out
}

// matches says whether a match holds for the request. What costs least is
// looked at first.
func (m *Matcher) matches(c *match) bool {
	if len(c.methods) > 0 {
		if method, ok := m.header(slotMethod); !ok || !slices.Contains(c.methods, method) {
			return false
		}
	}
	if c.path != nil {
		if path, ok := m.normalPath(); !holds(c.path, path, ok) {
			return false
		}
	}
	if c.host != nil {
		if host, ok := m.normalHost(); !holds(c.host, host, ok) {
			return false
		}
	}
	for _, h := range c.headers {
		if value, ok := m.header(h.slot); !holds(h.match, value, ok) {
			return false
		}
	}
	return c.not == nil || !m.matches(c.not)
}

// holds says whether a value, which may be absent, matches.
func holds(sm *config.StringMatch, value string, ok bool) bool {
	if sm.Op == config.Present {
		return ok == sm.Present
	}
	if !ok {
		return false
	}
	switch sm.Op {
	case config.Exact:
		return value == sm.Value
	case config.Prefix:
		return strings.HasPrefix(value, sm.Value)
	case config.Suffix:
		return strings.HasSuffix(value, sm.Value)
	case config.Contains:
		return strings.Contains(value, sm.Value)
	case config.Regex:
		return sm.Regexp.MatchString(value)
	}
	return false
}
