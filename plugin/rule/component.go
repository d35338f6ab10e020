package rule

import (
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/ipaddr"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// component is a compiled source of a value: a part of a key, or a tier's source.
type component struct {
	*config.Component
	column int // of the header, the attribute or the expression
}

// sourceAddress is the attribute path of the client's address.
var sourceAddress = []string{"source", "address"}

// metadataRoot is the attribute path of a request's dynamic metadata.
var metadataRoot = []string{"metadata", "filter_metadata"}

// compileComponent compiles c, which must outlive the Set.
func (s *Set) compileComponent(r *Rule, c *config.Component) component {
	column := -1
	switch c.Source {
	case config.FromHeader:
		column = s.headerColumn(c.Name)
	case config.FromBearer:
		column = s.headerColumn("authorization")
	case config.FromCookie:
		column = s.headerColumn("cookie")
	case config.FromClientIP:
		column = s.attributeColumn(sourceAddress)
	case config.FromMetadata:
		column = s.attributeColumn(slices.Concat(metadataRoot, c.Path))
	case config.FromProperty:
		column = s.attributeColumn(c.Path)
	case config.FromExpr:
		column = s.expressionColumn(c.Expr, config.TextExpression)
	}
	// Another filter may have to set metadata and properties.
	mustBeSet := (c.Source == config.FromMetadata || c.Source == config.FromProperty) && !c.HasDefault
	if mustBeSet && s.attributes[column].Rule == nil {
		s.attributes[column].Rule = r
	}
	return component{Component: c, column: column}
}

// compileKey returns the columns of a key's components, added where they are new.
func (s *Set) compileKey(r *Rule, key []config.Component) (columns []int) {
	for i := range key {
		c := &key[i]
		column := slices.IndexFunc(s.components, func(o component) bool {
			return o.Source == c.Source && o.Name == c.Name && o.Value == c.Value && o.Expr == c.Expr &&
				slices.Equal(o.Path, c.Path) &&
				o.V4Prefix == c.V4Prefix && o.V6Prefix == c.V6Prefix && o.Segments == c.Segments &&
				o.First == c.First && o.Hash == c.Hash && o.Keyed == c.Keyed &&
				o.HasDefault == c.HasDefault && o.Default == c.Default
		})
		if column < 0 {
			column = len(s.components)
			s.components = append(s.components, s.compileComponent(r, c))
		} else if c.Source == config.FromExpr {
			s.evaluated = append(s.evaluated, s.components[column].column)
		}
		columns = append(columns, column)
	}
	return columns
}

// valueOf is the value of a component, or its default. It is valid until the next
// valueOf.
func (m *Matcher) valueOf(c *component) reading {
	r := m.sourceOf(c)
	if r.state == absent && c.HasDefault {
		return read(c.Default, true)
	}
	return r
}

func (m *Matcher) sourceOf(c *component) reading {
	switch c.Source {
	case config.FromHeader:
		r := m.headerOf(c.column)
		if c.First && r.state == many {
			r.state = present
		}
		return r
	case config.FromBearer:
		r := m.headerOf(c.column)
		if r.state != present {
			return r
		}
		if !m.afford(len(r.value) * unitsToCount) {
			return reading{state: tooLong}
		}
		return bearerToken(r.value)
	case config.FromMethod:
		return m.methodOf()
	case config.FromPath:
		r := m.pathOf()
		if c.Segments == 0 || r.state != present {
			return r
		}
		if !m.afford(len(r.value) * unitsToCount) {
			return reading{state: tooLong}
		}
		for i, n := 1, c.Segments; i < len(r.value); i++ {
			if r.value[i] != '/' {
				continue
			}
			if n--; n == 0 || i == len(r.value)-1 { // without the slash that follows
				r.value = r.value[:i]
			}
		}
		return r
	case config.FromHost:
		return m.hostOf()
	case config.FromMetadata, config.FromProperty:
		// A whole number or a boolean is one value with its text, so that a client who chooses the type of
		// a value, as in a body of JSON, gets no other identity.
		r := m.propertyOf(c.column)
		if scalar, ok := appendScalar(m.value[:0], r.value); ok {
			return m.decoded(scalar)
		}
		return r
	case config.FromExpr:
		return m.expressionOf(c.column)
	case config.FromConstant:
		return read(c.Value, true)
	case config.FromClientIP:
		addr, ok := ipaddr.ParseSource(m.propertyOf(c.column).value)
		if !ok {
			return reading{state: absent}
		}
		bits := c.V6Prefix
		if addr.Is4() {
			bits = c.V4Prefix
		}
		prefix := addr.Mask(bits).AppendTo(m.value[:0])
		if bits != addr.Width() {
			prefix = strconv.AppendInt(append(prefix, '/'), int64(bits), 10)
		}
		return m.decoded(prefix)
	case config.FromQuery:
		return m.search(m.headerOf(pathColumn).value, c, queryValue)
	}
	return m.search(m.headerOf(c.column).value, c, cookieValue)
}

// search is the value of a component's name in a query or in cookies.
func (m *Matcher) search(
	where string, c *component, find func(dst []byte, where, name string, first bool) ([]byte, state),
) reading {
	if !m.afford(len(where) * unitsToSearch) {
		return reading{state: tooLong}
	}
	var found state
	m.value, found = find(m.value[:0], where, c.Name, c.First)
	return reading{value: text.View(m.value), state: found}
}

// decoded is a value that needed memory.
func (m *Matcher) decoded(value []byte) reading {
	m.value = value
	return reading{value: text.View(value), state: present}
}

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
