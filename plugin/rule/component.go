package rule

import (
	"slices"

	"github.com/sluiceproxy/sluice/plugin/config"
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
	if fromAttribute(c) && !c.HasDefault && s.attributes[column].Rule == nil {
		s.attributes[column].Rule = r
	}
	return component{Component: c, column: column}
}

// fromAttribute reports whether a component is an attribute that another filter
// may have to set.
func fromAttribute(c *config.Component) bool {
	return c.Source == config.FromMetadata || c.Source == config.FromProperty
}

// compileKey returns the columns of a key's components.
func (s *Set) compileKey(r *Rule, key []config.Component) (columns []int) {
	for i := range key {
		columns = append(columns, s.partColumn(r, &key[i]))
	}
	return columns
}

// partColumn is the column of a part of keys, added if it is new.
func (s *Set) partColumn(r *Rule, c *config.Component) int {
	for i := range s.components {
		if sameComponent(s.components[i].Component, c) {
			if c.Source == config.FromExpr {
				s.evaluated = append(s.evaluated, s.components[i].column)
			}
			return i
		}
	}
	s.components = append(s.components, s.compileComponent(r, c))
	return len(s.components) - 1
}

func sameComponent(a, b *config.Component) bool {
	return a.Source == b.Source && a.Name == b.Name && a.Value == b.Value && a.Expr == b.Expr &&
		slices.Equal(a.Path, b.Path) &&
		a.V4Prefix == b.V4Prefix && a.V6Prefix == b.V6Prefix && a.Segments == b.Segments &&
		a.First == b.First && a.Hash == b.Hash && a.Keyed == b.Keyed && a.HasDefault == b.HasDefault && a.Default == b.Default
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
		return m.bearerOf(c.column)
	case config.FromMethod:
		return m.methodOf()
	case config.FromPath:
		return m.segmentsOf(c.Segments)
	case config.FromHost:
		return m.hostOf()
	case config.FromMetadata, config.FromProperty:
		return m.attributeOf(c.column)
	case config.FromExpr:
		return m.expressionOf(c.column)
	case config.FromConstant:
		return read(c.Value, true)
	case config.FromClientIP:
		address := m.propertyOf(c.column)
		return m.decoded(clientAddr(m.value[:0], address.value, c.V4Prefix, c.V6Prefix))
	case config.FromQuery:
		return m.search(m.headerOf(pathColumn).value, c, queryValue)
	}
	return m.search(m.headerOf(c.column).value, c, cookieValue)
}

// attributeOf is an attribute as text. A whole number or a boolean is one value with its
// text, so that who chooses the type of a value, as in a body of JSON, gets no other identity.
func (m *Matcher) attributeOf(column int) reading {
	r := m.propertyOf(column)
	if scalar, ok := appendScalar(m.value[:0], r.value); ok {
		return m.decoded(scalar, true)
	}
	return r
}

// segmentsOf is the first segments of the path, or all if the number is 0.
func (m *Matcher) segmentsOf(n int) reading {
	r := m.pathOf()
	if n == 0 || r.state != present {
		return r
	}
	if !m.afford(len(r.value) * unitsToCount) {
		return reading{state: tooLong}
	}
	r.value = leading(r.value, n)
	return r
}

// bearerOf is the token in the Authorization header.
func (m *Matcher) bearerOf(column int) reading {
	r := m.headerOf(column)
	if r.state != present {
		return r
	}
	if !m.afford(len(r.value) * unitsToCount) {
		return reading{state: tooLong}
	}
	return bearerToken(r.value)
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
func (m *Matcher) decoded(value []byte, ok bool) reading {
	m.value = value
	return read(text.View(value), ok)
}
