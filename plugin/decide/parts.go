package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/deny"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// A rule whose limits have "per" counts parts of an identity: the identity itself, and each value
// within it. Redis decides all of them in one call. What a worker remembers, it remembers of each
// part, so that a rejection of one user holds for no other.

// scratch is memory for what concerns one part.
type scratch struct {
	part      []byte // its name
	limits    []algo.Limit
	sizes     []algo.Size
	costs     []int64
	decisions []algo.Decision
}

// name is the name of a part of a check's identity; applies is false if the part does not apply.
// The name is good until the next call.
func (s *scratch) name(a *Ask, part rule.Part) (name []byte, applies bool) {
	s.part, applies = a.Limits.AppendNamed(s.part[:0], a.Tag, part, a.Values)
	return s.part, applies
}

// keepBorrowing gives a check of a rule with a guarantee the costs of one that borrows.
func (q *Question) keepBorrowing(a *Ask) {
	if guarantee, _, ok := a.Limits.Plan.Guarantee(); ok {
		q.costs, a.borrowing = keep(q.costs, a.Costs)
		a.borrowing[guarantee] = 0
	}
}

// borrows reports whether the guarantee has charged nothing.
func (a *Ask) borrows(decisions []algo.Decision) bool {
	guarantee, _, ok := a.Limits.Plan.Guarantee()
	return ok && decisions[guarantee].Hidden
}

// asks is the demand of a check on the limits of a part. It is good until the next call.
func (s *scratch) asks(a *Ask, part rule.Part) deny.Asked {
	s.limits, s.sizes, s.costs = s.limits[:0], s.sizes[:0], s.costs[:0]
	for _, i := range part {
		s.limits = append(s.limits, a.Limits.Limits[i].Limit)
		s.costs = append(s.costs, a.Costs[i])
		if a.Sizes != nil {
			s.sizes = append(s.sizes, a.Sizes[i])
		}
	}
	asked := deny.Asked{Limits: s.limits, Costs: s.costs}
	if a.Sizes != nil {
		asked.Sizes = s.sizes
	}
	return asked
}

// ofPart is the decisions on the limits of a part. They are good until the next call.
func (s *scratch) ofPart(decisions []algo.Decision, part rule.Part) []algo.Decision {
	s.decisions = s.decisions[:0]
	for _, i := range part {
		s.decisions = append(s.decisions, decisions[i])
	}
	return s.decisions
}

// put writes the decisions on the limits of a part to their places.
func (s *scratch) put(decisions []algo.Decision, part rule.Part) {
	for n, i := range part {
		decisions[i] = s.decisions[n]
	}
}

// hideAbsent hides the limits that do not apply, as the request has no value for their "per".
func (c *Check) hideAbsent() {
	for i := range c.Decisions {
		if _, applies := c.Limits.ValuesOf(c.Values, i); !applies {
			c.Decisions[i] = algo.Decision{Allowed: true, Hidden: true}
		}
	}
}

// recallParts answers a check from what the worker remembers of the parts of its identity. What
// it remembers nothing of is not shown.
func (m *memory) recallParts(a *Ask, out []algo.Decision, now Time) (r algo.Ruling, known bool) {
	if e := m.denied.Find(a.Limits.ID, a.Tag); e != nil {
		if r, blocked := e.Blocked(now.SteadyMicros); blocked {
			return r, true
		}
	}
	for i := range out {
		out[i] = algo.Decision{Allowed: true, Hidden: true}
	}
	for _, part := range a.Limits.Memories {
		name, applies := m.parts.name(a, part)
		if !applies {
			continue
		}
		e := m.denied.Find(a.Limits.ID, name)
		if e == nil {
			continue
		}
		decisions := m.parts.ofPart(out, part)
		said, ok := e.Ruling(m.parts.asks(a, part), now.SteadyMicros, decisions)
		if !ok {
			continue
		}
		m.parts.put(out, part)
		r.AtMicros = max(r.AtMicros, said.AtMicros)
		known = known || !said.Allowed
	}
	return r, known
}

// rememberParts keeps what Redis said of each part.
func (m *memory) rememberParts(c *Check, now Time) {
	for _, part := range c.Limits.Memories {
		name, applies := m.parts.name(&c.Ask, part)
		if !applies {
			continue
		}
		asked, decisions := m.parts.asks(&c.Ask, part), m.parts.ofPart(c.Decisions, part)
		m.denied.Remember(c.Limits.ID, name, asked, decisions, now.SteadyMicros, c.AtMicros, m.ttls[c.Limits.ID])
	}
}

// forgetParts drops the memory of the parts that a charge was given back to.
func (m *memory) forgetParts(r *Receipt) {
	a := Ask{Limits: r.limits, Tag: r.tag, Values: r.values}
	for _, part := range r.limits.Memories {
		if name, applies := m.parts.name(&a, part); applies {
			m.forget(r.limits.ID, name)
		}
	}
}
