package config

import "github.com/sluiceproxy/sluice/algo"

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
	o, ok = v.readObject("header", "default", "max")
	if !ok {
		return c
	}
	if v, ok := o.required("header", `one such as "x-cost"; a constant cost is a plain number`); ok {
		c.Header, _ = v.readHeaderName()
	}
	o.readWholeField("default", &c.Default, 0, algo.MaxCost)
	o.readWholeField("max", &c.Max, 1, algo.MaxCost)
	if c.Default > c.Max {
		o.mistake(`"default" %d is above "max" %d (want at most that)`, c.Default, c.Max)
	}
	return c
}

// checkCost reports a constant cost that the limit can never admit. The largest
// that a header may ask for can be above: such a request is rejected. A limit of
// 0 is meant to reject every cost.
func (s scope) checkCost(o object, limit *Limit) {
	cost, capacity := s.rule.Cost, limit.Capacity()
	if capacity == 0 || cost.Default <= capacity {
		return
	}
	path := s.rulePath + ".cost"
	if cost.Header != "" {
		path += ".default"
	}
	o.r.mistake(path, "%d is above the capacity %d of %s, which never admits it (want at most %d)",
		cost.Default, capacity, o.path, capacity)
}
