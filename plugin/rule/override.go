package rule

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/override"
)

// What an operator's override means for a rule: see package override.

// Tier is the limit set of a tier that a rule has by that name; nil if it has none.
func (s *Set) Tier(r ID, name string) *LimitSet {
	if t := s.compiled[r].tiers; t != nil {
		if named := t.named(name); named != nil {
			return named.limits
		}
	}
	return nil
}

// Ahead are the values of the expressions that any tier of a rule may evaluate. The name of a tier may come
// from Redis, and Envoy evaluates expressions in the callback of the request itself only.
type Ahead []reading

// readAhead reads them. Each text is evaluated once a request, whatever many rules have it.
//
//go:noinline
func (m *Matcher) readAhead(columns []int) Ahead {
	begin := len(m.ahead)
	for _, column := range columns {
		m.ahead = append(m.ahead, m.expressionOf(column))
	}
	return m.ahead[begin:len(m.ahead):len(m.ahead)]
}

// ApplyAs reads what a limit set takes of a request that its rule applies to: the request's tier is
// another one than its source says. ahead is what Apply has read of the rule; nil: expressions are
// evaluated now. The result, without a tag, is valid until m's next Apply.
func (s *Set) ApplyAs(req Request, m *Matcher, limits *LimitSet, ahead Ahead) Applied {
	m.reset(s, req)
	c := &s.compiled[limits.Rule.ID]
	for i := range ahead {
		m.values[c.ahead[i]] = ahead[i]
	}
	a := Applied{Rule: limits.Rule, Demand: Demand{Limits: limits}}
	m.take(c, &a)
	return a
}

// SizesOf appends the sizes that an override gives the limits: by a factor, or by absolute numbers. own are
// the sizes that came with the request; nil: as configured. ok is false if a number is not one of a limit of
// the set, or a limit has two.
func (l *LimitSet) SizesOf(dst, own []algo.Size, o override.Override) (sizes []algo.Size, ok bool) {
	begin := len(dst)
	for i := range l.Limits {
		limit := l.Limits[i].Limit
		if own != nil {
			limit.Resize(own[i])
		}
		if o.Kind == override.Factor {
			dst = append(dst, limit.Times(o.Factor))
		} else {
			dst = append(dst, limit.Size())
		}
	}
	if o.Kind != override.Numbers {
		return dst, true
	}
	for seen := uint64(0); o.Rest != ""; {
		var n override.Number
		if n, o.Rest, ok = override.Next(o.Rest); !ok {
			return dst[:begin], false
		}
		i := slices.IndexFunc(l.Labels, func(label answer.Label) bool { return override.Names(n.Limit, label.Name) })
		if i < 0 || seen>>i&1 == 1 || n.Burst > 0 && !l.Limits[i].Algorithm.HasBurst() {
			return dst[:begin], false
		}
		seen |= 1 << i
		limit := l.Limits[i].Limit
		limit.Resize(algo.Size{
			Units: n.Units, Burst: n.Burst, Bounds: dst[begin+i].Bounds, Ceiling: dst[begin+i].Ceiling,
		})
		limit.Fit()
		dst[begin+i] = limit.Size()
	}
	return dst, true
}
