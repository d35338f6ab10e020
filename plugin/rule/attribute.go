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

// Bound: requests in a row without an attribute. Below it, the log says nothing. Protects the log
// from what is rare.
const absentRequests = 100

// Missing is an attribute that rules cannot do without and that no request has
// had so far, though many were asked: perhaps the filter that sets it stands after
// this one. Apply finds each such attribute once; otherwise Missing is nil.
func (m *Matcher) Missing() *Attribute { return m.missing }

// propertyOf is the attribute in a column.
func (m *Matcher) propertyOf(column int) reading {
	r := &m.properties[column]
	if r.state != unread {
		return *r
	}
	value, ok := m.req.Property(m.set.attributes[column].Path)
	*r = read(text.View(value), ok)
	m.observe(column, ok)
	return *r
}

// observe notes whether a request has an attribute.
func (m *Matcher) observe(column int, ok bool) {
	a := &m.absences[column]
	if ok || a.seen {
		a.seen = true
		return
	}
	a.requests++
	if attribute := m.set.attributes[column]; a.requests >= absentRequests && attribute.Rule != nil && m.missing == nil {
		m.missing, a.seen = attribute, true // once is enough
	}
}

// attributeColumn is the column of an attribute, added if it is new.
func (s *Set) attributeColumn(path []string) int {
	same := func(a *Attribute) bool { return slices.Equal(a.Path, path) }
	if i := slices.IndexFunc(s.attributes, same); i >= 0 {
		return i
	}
	s.attributes = append(s.attributes, &Attribute{Path: path})
	return len(s.attributes) - 1
}
