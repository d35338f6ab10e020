package rule

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

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
	a := &m.absences[column]
	if ok || a.seen {
		a.seen = true
		return *r
	}
	a.requests++
	if attribute := m.set.attributes[column]; a.requests >= absentRequests && attribute.Rule != nil && m.missing == nil {
		m.missing, a.seen = attribute, true // once is enough
	}
	return *r
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

// Bound: whole number that a double holds exactly. Beyond it, an attribute's number is absent.
// Protects identities from being mistaken for each other.
const maxDoubleWhole = 1 << 53

// appendScalar appends the text of a boolean or a whole number in the form in
// which Envoy's proxy_get_property passes it (serializeValue in
// source/extensions/common/wasm/context.cc): one byte, or 64 bits little endian
// that are an integer or a double. It reports whether value can be one. Bytes that could be
// either text or a double count as text: "ORDER09C" is also 7090004325323343. An integer
// has a byte that no text has.
func appendScalar(dst []byte, value string) ([]byte, bool) {
	switch len(value) {
	case 1:
		return strconv.AppendBool(dst, value[0] == 1), value[0] <= 1
	case 8:
		bits := binary.LittleEndian.Uint64(text.Bytes(value))
		if n := int64(bits); -maxDoubleWhole < n && n < maxDoubleWhole {
			return strconv.AppendInt(dst, n, 10), true
		}
		f := math.Float64frombits(bits)
		if f != math.Trunc(f) || math.Abs(f) >= maxDoubleWhole {
			return dst, false
		}
		isText := utf8.ValidString(value)
		for i := range len(value) {
			isText = isText && !text.IsControl(value[i])
		}
		if !isText {
			return strconv.AppendInt(dst, int64(f), 10), true
		}
	}
	return dst, false
}
