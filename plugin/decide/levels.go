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

// wholeName is the name of all that a check is about, whatever its values: its tag, and a NUL and the
// values where limits may pay for others. Then no part rejects by itself.
func (s *scratch) wholeName(a *Ask) []byte {
	if len(a.Values) == 0 {
		return a.Tag
	}
	s.part = append(append(append(s.part[:0], a.Tag...), 0), a.Values...)
	return s.part
}

// asks returns the check's demand on its limits.
func (a *Ask) asks() deny.Asked {
	return deny.Asked{
		Limits: a.Limits.Plan.Limits(), Sizes: a.Sizes, Costs: a.Costs, Own: a.Limits.Plan.Own(),
	}
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
