package rule

import (
	"bytes"

	"github.com/sluiceproxy/sluice/algo"
)

// Demand is what a request asks of one limit set: of Redis, of the embedded store, of the memory of
// rejections. It is also what was charged, with the costs that it took and the sizes that it took them
// at. Whoever has one says how long its slices live.
type Demand struct {
	// Limits is nil for an unlimited tier of a rule without terms: there is nothing to decide. With
	// terms such a tier is a set of no limits.
	Limits *LimitSet
	// Tag is "<rule>|<identity>", escaped: what stands in the braces of the request's keys.
	Tag []byte
	// Values are counted by the limits with "per"; nil where no limit has "per".
	Values Values
	// Costs are the units that the request takes of each limit, and Sizes the sizes that it brings; nil:
	// the limits are as configured.
	Costs []int64
	Sizes []algo.Size
}

// Limit is one of the limits as it is for the request.
//
//go:inline
func (d *Demand) Limit(i int) algo.Limit {
	l := d.Limits.Limits[i].Limit
	if d.Sizes != nil {
		l.Resize(d.Sizes[i])
	}
	return l
}

// Room is the capacity of one of the limits as it is for the request.
func (d *Demand) Room(i int) int64 {
	if d.Sizes == nil { // without a copy of the limit
		return d.Limits.Limits[i].Room()
	}
	l := d.Limit(i)
	return l.Room()
}

// CopyFrom makes d a copy of another demand, in the memory that d has.
func (d *Demand) CopyFrom(from *Demand) {
	d.Limits, d.Tag, d.Values = from.Limits, append(d.Tag[:0], from.Tag...), append(d.Values[:0], from.Values...)
	d.Costs, d.Sizes = append(d.Costs[:0], from.Costs...), append(d.Sizes[:0], from.Sizes...)
}

// Values says whose counters the limits with "per" are about: for each of these limits, in order,
// one byte with the length of its values, and the values as they stand in keys. A limit of length
// 0 does not apply to the request. Values are nil where no limit has "per".
type Values []byte

// Next splits off the values of the next limit with "per"; none if it does not apply.
func (v Values) Next() (values []byte, rest Values) {
	if len(v) == 0 {
		return nil, nil
	}
	end := 1 + int(v[0])
	return v[1:end], v[end:]
}

// IsPer reports whether this limit does.
func (l *LimitSet) IsPer(limit int) bool { return l.pers != nil && l.pers[limit] != nil }

// ValuesOf is the values that a limit counts. applies is false for a limit with "per" that has
// none in this request.
func (l *LimitSet) ValuesOf(v Values, limit int) (values []byte, applies bool) {
	if !l.IsPer(limit) {
		return nil, true
	}
	for i := range limit + 1 {
		if l.pers[i] != nil {
			values, v = v.Next()
		}
	}
	return values, len(values) > 0
}

// CutPart splits a part's name: id is a PerID and values, empty for the identity itself.
func CutPart(part []byte) (tag, id []byte) {
	if i := bytes.IndexByte(part, 0); i >= 0 {
		return part[:i], part[i+1:]
	}
	return part, nil
}

// Part is the limits, by index, of one part of the identity, and whose values name it. Those without
// "per" are one part, and each other one is a part of its own.
type Part struct {
	Limits []int
	per    int // the limit with "per" whose values name it; or:
}

const (
	byTag       = -1 - iota // its tag alone is the name
	byAllValues             // the values of all limits are
)

// Name is the name of a part of a demand's identity: a worker that remembers something of a part keeps it
// by that. It is the tag, and for a limit with "per" also a NUL, which no tag has, its PerID and the
// values. It is made in memory if it is not the tag. applies is false if the part does not apply.
func (d *Demand) Name(p *Part, memory *[]byte) (name []byte, applies bool) {
	switch {
	case p.per == byTag || p.per == byAllValues && len(d.Values) == 0:
		return d.Tag, true
	case p.per == byAllValues:
		*memory = append(append(append((*memory)[:0], d.Tag...), 0), d.Values...)
		return *memory, true
	}
	values, applies := d.Limits.ValuesOf(d.Values, p.per)
	if !applies && len(p.Limits) == 1 { // without the guarantee, there is the pool alone
		return nil, false
	}
	*memory = append(append((*memory)[:0], d.Tag...), 0)
	*memory = append(append(*memory, d.Limits.Limits[p.per].PerID...), values...)
	return *memory, true
}

// partsOf appends the parts of some limits.
func (l *LimitSet) partsOf(parts []Part, limits []int) []Part {
	var whole []int
	for _, i := range limits {
		if !l.IsPer(i) {
			whole = append(whole, i)
		}
	}
	if whole != nil {
		parts = append(parts, Part{whole, byTag})
	}
	for _, i := range limits {
		if l.IsPer(i) {
			parts = append(parts, Part{[]int{i}, i})
		}
	}
	return parts
}

// take fills in what the limits take of the request. ok is false if no limit applies.
func (m *Matcher) take(c *compiled, a *Applied) (ok bool) {
	a.Cost = m.amountOf(c.cost, c.cost.max)
	l := a.Limits
	if l == nil {
		return true
	}
	begin := len(m.costs)
	for _, own := range l.costs {
		cost := a.Cost
		if own != nil {
			cost = m.amountOf(own, own.max)
		}
		m.costs = append(m.costs, cost)
	}
	a.Costs = m.costs[begin:len(m.costs):len(m.costs)]
	if l.sized {
		// A burst of 0 counts as a limit of 0, and a class whose value is unknown as the lowest.
		begin = len(m.sizes)
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
			size := algo.Size{Units: limit.Units, Burst: limit.Burst}
			if c := from.classes; c != nil {
				size.Ceiling = c.other
				if r := m.valueOf(&c.source); r.state.isUnknown() {
					size.Ceiling = c.lowest
				} else if percent := c.Of(r.value); percent > 0 && r.state == present {
					size.Ceiling = percent
				}
			}
			m.sizes = append(m.sizes, size)
		}
		a.Sizes = m.sizes[begin:len(m.sizes):len(m.sizes)]
	}
	if l.pers == nil {
		return true
	}

	// Whom the limits with "per" count. Those that do not apply to the request cost nothing.
	begin = len(m.tags)
	for i, columns := range l.pers {
		own := i < l.Own // whether the rule applies is a matter of its own limits
		if columns == nil {
			ok = ok || own
			continue
		}
		at := len(m.tags)
		m.tags = append(m.tags, 0)
		if m.appendIdentity(columns) {
			m.tags[at] = byte(len(m.tags) - at - 1) // an identity has at most maxIdentityBytes
			ok = ok || own
		} else {
			a.Costs[i] = 0
		}
	}
	a.Values = m.tags[begin:len(m.tags):len(m.tags)]
	return ok
}
