package rule

import (
	"github.com/sluiceproxy/sluice/algo"
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

// amountText is the expression that reads an amount; "" if none does.
func amountText(c *config.Amount) string {
	switch {
	case c.Metadata != nil:
		return metadataText(c.Metadata)
	case c.Property != nil:
		return propertyText(c.Property)
	}
	return c.Expr
}

// amountOf is the number of the request, and unknown if that is not known.
func (m *Matcher) amountOf(a *amount, unknown int64) int64 {
	switch {
	case a.expression != noExpression:
		return m.numberOf(a.expression, a.fallback, a.max)
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

// compileAmounts compiles what comes with the request of each limit.
func (s *Set) compileAmounts(l *LimitSet) {
	for i := range l.Limits {
		c := &l.Limits[i]
		from := size{units: s.compileOptional(c.UnitsFrom), burst: s.compileOptional(c.BurstFrom)}
		l.costs = append(l.costs, s.compileOptional(c.Cost))
		from.classes = s.compileClasses(l.Rule, c.Classes)
		l.sizes = append(l.sizes, from)
		l.sized = l.sized || from != size{}
	}
}

// compileOptional is nil for nil.
func (s *Set) compileOptional(c *config.Amount) *amount {
	if c == nil {
		return nil
	}
	a := s.compileAmount(c)
	return &a
}

// costsOf is the request's cost for each limit: the limit's own, or the rule's.
func (m *Matcher) costsOf(l *LimitSet, rule int64) []int64 {
	begin := len(m.costs)
	for _, own := range l.costs {
		cost := rule
		if own != nil {
			cost = m.amountOf(own, own.max)
		}
		m.costs = append(m.costs, cost)
	}
	return m.costs[begin:len(m.costs):len(m.costs)]
}

// sizesOf is the units and bursts that come with the request; nil if none does. A
// burst of 0 counts as a limit of 0.
func (m *Matcher) sizesOf(l *LimitSet) []algo.Size {
	if !l.sized {
		return nil
	}
	begin := len(m.sizes)
	for i, from := range l.sizes {
		limit := l.Limits[i].Limit
		if from.units != nil {
			limit.Units = m.amountOf(from.units, from.units.fallback)
		}
		if from.burst != nil {
			if limit.Burst = m.amountOf(from.burst, from.burst.fallback); limit.Burst == 0 {
				limit.Units = 0
			}
		}
		limit.Fit()
		m.sizes = append(m.sizes, algo.Size{Units: limit.Units, Burst: limit.Burst})
		if from.classes != nil {
			m.sizes[len(m.sizes)-1].Ceiling = m.ceilingOf(from.classes)
		}
	}
	return m.sizes[begin:len(m.sizes):len(m.sizes)]
}
