package algo

import "strings"

// A rule's own limits may be followed by limits with Over: they may pay for what those reject. One
// call decides: if the rule's own limits all allow, they are charged. Else the others are asked; if
// they all allow, and one of them has a cost, they are charged, and the rule's own are not. Else
// nothing is charged. Where the others are not asked they are neither read nor answered, and their
// decisions are Hidden.

// OverInfix stands in the keys of limits with Over, after the hash tag.
const OverInfix = ":over"

// findOver notes how many limits are the rule's own, and refuses what does not go with others. Limits
// that all have Over are their own: a part of a rule's.
func (p *Plan) findOver() error {
	p.own = 0
	for p.own < len(p.limits) && !p.limits[p.own].Over {
		p.own++
	}
	for i := range p.limits {
		l := &p.limits[i]
		switch {
		case i > p.own && !l.Over:
			return invalid("limit ", i, " is one of the rule's own (want those first)")
		case l.Over && (l.Queue || l.LeaseMicros != 0 || l.Guarantee || l.Pool || !l.Algorithm.HasWindow()):
			return invalid("limit ", i, " cannot pay for others (want one that neither queues nor holds anything)")
		case p.own < len(p.limits) && (l.Queue || l.Guarantee):
			return invalid("limit ", i, " goes with none that pays for it")
		}
	}
	if p.own < len(p.limits) && p.terms.Penalty != nil {
		return invalid("a penalty does not go with limits that pay for others")
	}
	if p.own == 0 {
		p.own = len(p.limits)
	}
	return nil
}

// AsOne is a plan of the same limits as one list, so that a report asks all of them.
func (p *Plan) AsOne() *Plan {
	one := *p
	one.own = len(one.limits)
	one.script = scriptOf(one.limiters, one.kind())
	return &one
}

// asksOthers reports whether others are asked where the rule's own limits reject: one of them has to
// be charged.
func (p *Plan) asksOthers(costs []int64) bool {
	for _, cost := range costs[p.own:] {
		if cost > 0 {
			return true
		}
	}
	return false
}

// decideOwn writes the branch of a request that the rule's own limits decide, if they do: they admit
// it, or the others would allow nothing. What follows is the others'.
func (c *composer) decideOwn() {
	var conditions, nothing []string
	for i := range c.scopes {
		if suffix := c.scopes[i].suffix; i < c.kind.own {
			conditions = append(conditions, "retry"+suffix+" == 0")
		} else if c.packed() {
			nothing = append(nothing, "cost"+suffix+" == 0")
		} else {
			nothing = append(nothing, c.source(i, "cost")+" == 0")
		}
	}
	own := c.scopes[:c.kind.own]
	c.WriteString("if " + strings.Join(conditions, " and ") + " then\n")
	for i := range own {
		own[i].block(c, "  ", c.charges(i), own[i].steps(chargeSteps))
	}
	c.WriteString("  ")
	c.answer(c.kind.own)
	c.WriteString("elseif " + strings.Join(nothing, " and ") + " then\n  ")
	c.answer(c.kind.own)
	c.WriteString("end\n")
}
