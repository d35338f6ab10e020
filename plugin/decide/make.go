package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/override"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// How a check is made: of a rule that applies, and later of what an operator's override makes of
// it. All checks of a question share its memory.

// made is the change of a check by an override, and the check as it came.
type made struct {
	value []byte // as Redis has it; empty: none
	kind  override.Kind

	limits    *rule.LimitSet
	values    rule.Values
	costs     []int64
	borrowing []int64
	own       []algo.Size
	decisions []algo.Decision
}

// madeFor is the override that a check was made for; empty: none.
func (a *Ask) madeFor() []byte {
	if a.made == nil {
		return nil
	}
	return a.made.value
}

// override is its kind.
func (a *Ask) override() override.Kind {
	if a.made == nil {
		return override.None
	}
	return a.made.kind
}

// make makes a check what it came as, changed by an override. ok is false if that is a tier, and
// what the tier takes of the request cannot be read any more.
func (o *overrides) make(q *Question, c *Check, value []byte) (ok bool) {
	if text.Equal(value, c.madeFor()) {
		return true
	}
	if c.made == nil {
		q.mades = append(q.mades, made{
			limits: c.Limits, values: c.Values, costs: c.Costs, borrowing: c.borrowing, own: c.own, decisions: c.Decisions,
		})
		c.made = &q.mades[len(q.mades)-1]
	}
	m := c.made
	c.Limits, c.Costs, c.own, c.Decisions = m.limits, m.costs, m.own, m.decisions
	c.Values, c.borrowing = m.values, m.borrowing
	q.tags, m.value = keep(q.tags, value)
	to := override.Parse(text.View(m.value))
	m.kind = to.Kind
	q.sizes, c.Sizes = keep(q.sizes, c.own) // what Redis was sent stays as it was
	switch to.Kind {
	case override.Tier:
		return o.change(q, c, o.rules.Tier(c.Rule.ID, to.Rest))
	case override.Numbers:
		if !q.number(&c.Ask, to.Rest) {
			m.kind = override.Nonsense
		}
	case override.Factor:
		q.multiply(&c.Ask, to.Factor)
	}
	return true
}

// multiply gives a check the sizes that a factor makes of its own.
func (q *Question) multiply(a *Ask, thousandths int64) {
	must.Hold(thousandths > 0, "an operator's factor is above 0")
	begin := len(q.sizes)
	q.sizes = a.Limits.Multiplied(q.sizes, a.own, thousandths)
	a.Sizes = q.sizes[begin:len(q.sizes):len(q.sizes)]
}

// number gives a check absolute sizes. It reports whether they are such of its limits.
func (q *Question) number(a *Ask, numbers string) (ok bool) {
	begin := len(q.sizes)
	if q.sizes, ok = a.Limits.SizesOf(q.sizes, a.own, numbers); ok {
		a.Sizes = q.sizes[begin:len(q.sizes):len(q.sizes)]
	}
	return ok
}

// change gives a check the limits of another tier, and what they take of its request, if that can
// still be read.
func (o *overrides) change(q *Question, c *Check, limits *rule.LimitSet) (ok bool) {
	switch {
	case limits == nil:
		c.made.kind = override.Nonsense
		return true
	case limits == c.Limits:
		return true
	case q.state == Gone || q.state == Ended:
		return false
	}
	applied := o.rules.ApplyAs(o.host.Request(q.ContextID), &o.matcher, limits, c.ahead)
	c.Limits = limits
	q.costs, c.Costs = keep(q.costs, applied.Costs)
	if c.Rule.Reports {
		clear(c.Costs)
	}
	c.Values, c.borrowing = nil, nil
	if applied.Values != nil {
		q.tags, c.Values = keep(q.tags, applied.Values)
		q.keepBorrowing(&c.Ask)
	}
	q.keepLists(&c.Ask)
	q.sizes, c.Sizes = keep(q.sizes, applied.Sizes)
	c.own = c.Sizes
	q.decisions, c.Decisions = roomFor(q.decisions, len(limits.Limits))
	return true
}

// keepBorrowing gives a check of a rule with a guarantee the costs of one that borrows.
func (q *Question) keepBorrowing(a *Ask) {
	if guarantee, _, ok := a.Limits.Plan.Guarantee(); ok {
		q.costs, a.borrowing = keep(q.costs, a.Costs)
		a.borrowing[guarantee] = 0
	}
}

// keep copies list to the end of memory. It returns memory and the copy, which is
// nil if there is nothing to copy.
func keep[T any](memory, list []T) (grown, kept []T) {
	if len(list) == 0 {
		return memory, nil
	}
	begin := len(memory)
	memory = append(memory, list...)
	return memory, memory[begin:len(memory):len(memory)]
}

// roomFor appends decisions that say nothing yet to memory. It returns memory and them.
func roomFor(memory []algo.Decision, decisions int) (grown, room []algo.Decision) {
	n := len(memory) + decisions
	memory = slices.Grow(memory, decisions)
	room = memory[len(memory):n:n]
	clear(room)
	return memory[:n], room
}
