package rule

import (
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// amount is a compiled config.Amount: a number that may come with the request.
type amount struct {
	header     int // column; noHeader for none
	expression int // column; noExpression for none
	fallback   int64
	max        int64
}

const noHeader = -1

// compileAmount compiles c. Metadata and properties are read by an expression, as
// the bytes of an attribute do not say whether they are a number.
func (s *Set) compileAmount(c *config.Amount) amount {
	a := amount{header: noHeader, fallback: c.Default, max: c.Max}
	if c.Header != "" {
		a.header = s.headerColumn(c.Header)
	}
	a.expression = s.expressionColumn(amountText(c), config.NumberExpression)
	return a
}

// amountText is the expression that reads an amount; "" if none does. Dynamic metadata is untyped, and
// names are keys, or else typed, and they are fields.
func amountText(c *config.Amount) string {
	switch {
	case c.Metadata != nil:
		var untyped, typed strings.Builder
		for _, name := range c.Metadata[1:] {
			untyped.WriteString("[" + quoted(name) + "]")
			typed.WriteString(selection(name))
		}
		namespace := quoted(c.Metadata[0])
		return namespace + " in metadata.filter_metadata" +
			" ? metadata.filter_metadata[" + namespace + "]" + untyped.String() +
			" : metadata.typed_filter_metadata[" + namespace + "]" + typed.String()
	case c.Property != nil:
		var b strings.Builder
		b.WriteString(c.Property[0])
		for _, name := range c.Property[1:] {
			b.WriteString(selection(name))
		}
		return b.String()
	}
	return c.Expr
}

// amountOf is the number of the request, rounded down, and unknown if that is not known.
func (m *Matcher) amountOf(a *amount, unknown int64) int64 {
	switch {
	case a.expression != noExpression:
		r := m.expressionOf(a.expression)
		f, ok := number(r.value)
		switch {
		case r.state != present || !ok:
			return a.fallback
		case f >= float64(a.max):
			return a.max
		}
		return int64(f)
	case a.header == noHeader:
		return a.fallback
	}
	r := m.headerOf(a.header)
	if r.state.isUnknown() || !m.afford(len(r.value)*unitsToCount) {
		return unknown
	}
	return parseAmount(r.value, a.fallback, a.max)
}

// parseAmount reads digits: at most limit, however many there are. Anything else
// is fallback.
func parseAmount(s string, fallback, limit int64) int64 {
	if s == "" {
		return fallback
	}
	n := int64(0)
	for i := range len(s) {
		if !text.IsDigit(s[i]) {
			return fallback
		}
		n = min(n*10+int64(s[i]-'0'), limit+1) // no overflow: limit is at most 1e15
	}
	return min(n, limit)
}

// size is where the units, the burst and the class of a limit come from: nil if not from the
// request.
type size struct {
	units, burst *amount
	classes      *classes
}

// classes is a compiled config.Classes.
type classes struct {
	*config.Classes
	source component
	lowest int64 // percent
	other  int64 // percent of a request whose source names no class
}

// compileOptional is nil for nil.
func (s *Set) compileOptional(c *config.Amount) *amount {
	if c == nil {
		return nil
	}
	a := s.compileAmount(c)
	return &a
}
