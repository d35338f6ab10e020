package rule

import (
	"slices"
	"strconv"

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
