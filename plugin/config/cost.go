package config

import "github.com/sluiceproxy/sluice/algo"

// readCost reads the "cost" of a rule or of a limit.
func readCost(o object) Cost {
	c := Cost{Default: 1, Max: algo.MaxCost}
	v, ok := o.field("cost")
	if !ok {
		return c
	}
	if !v.json.IsObject() {
		o.readWholeField("cost", &c.Default, 0, algo.MaxCost)
		return c
	}
	o, ok = v.readObject("header", "expr", "default", "max")
	if !ok {
		return c
	}
	c.readSource(o, FromHeader, FromExpr)
	o.readWholeField("default", &c.Default, 0, algo.MaxCost)
	o.readWholeField("max", &c.Max, 1, algo.MaxCost)
	c.checkDefault(o)
	return c
}

// costOf is what a request takes of a limit: the limit's own cost, or the rule's.
func (s scope) costOf(limit *Limit) *Cost {
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
	o.r.mistake(path, "%d is above the capacity %d of %s, which never admits it (want at most %d)",
		cost.Default, capacity, o.path, capacity)
}
