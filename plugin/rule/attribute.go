package rule

import (
	"slices"

	"github.com/sluiceproxy/sluice/plugin/text"
)

// Attribute is an Envoy attribute that rules read.
type Attribute struct {
	Path []string
	// Rule is the first that does not apply where the attribute is absent, or nil.
	Rule *Rule
}

// absence counts the requests that lacked an attribute which was asked for.
type absence struct {
	requests int
	seen     bool // it need not be counted any more
}

// absentRequests is how many requests in a row must lack an attribute to be worth
// a warning.
//
// Bound: requests in a row without an attribute. Below it, the log says nothing. Protects the log
// from what is rare.
const absentRequests = 100

// Missing is an attribute that rules cannot do without and that no request has
// had so far, though many were asked: perhaps the filter that sets it stands after
// this one. Apply finds each such attribute once; otherwise Missing is nil.
func (m *Matcher) Missing() *Attribute { return m.missing }

// propertyOf is the attribute in a slot.
func (m *Matcher) propertyOf(slot int) reading {
	r := &m.properties[slot]
	if r.state != unread {
		return *r
	}
	value, ok := m.req.Property(m.set.attributes[slot].Path)
	*r = read(text.View(value), ok)
	m.observe(slot, ok)
	return *r
}

// observe notes whether a request has an attribute.
func (m *Matcher) observe(slot int, ok bool) {
	a := &m.absences[slot]
	if ok || a.seen {
		a.seen = true
		return
	}
	a.requests++
	if attribute := m.set.attributes[slot]; a.requests >= absentRequests && attribute.Rule != nil && m.missing == nil {
		m.missing, a.seen = attribute, true // once is enough
	}
}

// attributeSlot is the slot of an attribute, added if it is new.
func (s *Set) attributeSlot(path []string) int {
	same := func(a *Attribute) bool { return slices.Equal(a.Path, path) }
	if i := slices.IndexFunc(s.attributes, same); i >= 0 {
		return i
	}
	s.attributes = append(s.attributes, &Attribute{Path: path})
	return len(s.attributes) - 1
}
