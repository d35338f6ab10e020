package config

import "github.com/sluiceproxy/sluice/algo"

// readSource reads where an amount comes from.
func (a *Amount) readSource(o object) {
	name, v, ok := o.choice()
	if !ok {
		return
	}
	switch Source(placeOf(sourceFields, name)) {
	case FromHeader:
		a.Header, _ = v.readHeaderName()
	case FromExpr:
		a.Expr = readExpression(v, NumberExpression)
	case FromMetadata:
		a.Metadata = readAttributePath(v)
	case FromProperty:
		a.Property = readAttributePath(v)
	}
}

// readBounds reads the "default" and the "max" of an amount. The default must be one
// that the amount itself can be.
func (a *Amount) readBounds(o object) {
	a.Default, a.Max = o.number("default"), o.number("max")
	if a.Max > 0 && a.Default > a.Max {
		o.mistake(`"default" %d is above "max" %d (want at most that)`, a.Default, a.Max)
	}
}

// readUnits reads a "limit" or a "burst": a whole number, or an object that says
// where the number of each request comes from. Then units are the largest.
func readUnits(v value, f *field) (units int64, from *Amount, ok bool) {
	if !v.json.IsObject() {
		units, ok = v.readWhole(f.low, f.high)
		return units, nil, ok
	}
	o := v.readObject(f.fields)
	from = &Amount{}
	from.readSource(o)
	from.readBounds(o)
	return from.Max, from, from.Max > 0
}

// readCost reads the "cost" of a rule or of a limit.
func readCost(o object) Amount {
	c, f := Amount{Default: 1, Max: algo.MaxCost}, o.row("cost")
	v, ok := o.field("cost")
	if !ok {
		return c
	}
	if !v.json.IsObject() {
		if n, ok := v.readWhole(f.low, f.high); ok {
			c.Default = n
		}
		return c
	}
	o = v.readObject(f.fields)
	c.readSource(o)
	c.readBounds(o)
	return c
}

// costOf is a request's cost for a limit: the limit's own, or the rule's.
func (s scope) costOf(limit *Limit) *Amount {
	if limit.Cost != nil {
		return limit.Cost
	}
	return &s.rule.Cost
}

// checkCost reports a constant cost that the limit can never admit. The largest cost
// that a header may ask for can be above the capacity: such a request is rejected. A
// limit of 0 is meant to reject every cost.
func (s scope) checkCost(o object, limit *Limit) {
	cost, capacity := s.costOf(limit), limit.Capacity()
	what := "the capacity"
	if limit.Classes != nil && capacity > 0 {
		lowest := limit.Limit
		lowest.Ceiling = limit.Classes.Lowest()
		capacity, what = lowest.Room(), "the lowest class's part"
	}
	if capacity == 0 || cost.Default <= capacity {
		return
	}
	path := s.rulePath + ".cost"
	if limit.Cost != nil {
		path = o.path + ".cost"
	}
	if !cost.IsConstant() {
		path += ".default"
	}
	o.r.mistake(path, "%d is above %s %d of %s, which never admits it (want at most %d)",
		cost.Default, what, capacity, o.path, capacity)
}
