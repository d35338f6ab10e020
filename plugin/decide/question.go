package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Question is all that is asked about one request: a Check for each rule that
// applies. It is used again for later requests, with the memory that it has.
type Question struct {
	// ContextID is what Envoy calls the request. No host call may name it once the
	// state is Gone or Ended.
	ContextID uint32
	// Checks are in rule order.
	Checks []Check

	stores  *Stores
	state   State
	waiting int  // checks that wait for Redis
	inPipe  int  // checks whose last reply has not come; those that expired count
	turn    turn // its place in the queue, while Held

	verdict   Verdict // once it is concluded
	concluded bool
	refused   bool // and what it charged, or turns out to have, is given back
	settles   bool // some rule settles what it charged when the request is over

	// Memory of all checks.
	decisions []algo.Decision
	tags      []byte
	costs     []int64
	sizes     []algo.Size
}

// Concluded is the verdict on the request, once there is one.
func (q *Question) Concluded() Verdict { return q.verdict }

// State is where the request is in its life.
func (q *Question) State() State { return q.state }

// Keep copies the rules that apply, since the request may outlive the matcher's
// memory. It reports whether there is anything to decide.
func (q *Question) Keep(applied []rule.Applied) bool {
	for i := range applied {
		a := &applied[i]
		if a.Limits == nil {
			continue // an unlimited tier: there is nothing to decide
		}
		c := Check{Rule: a.Rule, Limits: a.Limits}
		q.tags, c.Tag = keep(q.tags, a.Tag)
		q.costs, c.Costs = keep(q.costs, a.Costs)
		q.sizes, c.Sizes = keep(q.sizes, a.Sizes)
		c.own = c.Sizes
		n := len(q.decisions) + len(a.Limits.Limits)
		q.decisions = slices.Grow(q.decisions, n-len(q.decisions))
		c.Decisions = q.decisions[len(q.decisions):n:n]
		clear(c.Decisions)
		q.decisions = q.decisions[:n]
		q.Checks = append(q.Checks, c)
		q.settles = q.settles || a.Rule.Settle != nil
	}
	return len(q.Checks) > 0
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

// reset makes the question one about another request.
func (q *Question) reset() {
	clear(q.Checks)
	*q = Question{
		stores: q.stores, Checks: q.Checks[:0],
		decisions: q.decisions[:0], tags: q.tags[:0], costs: q.costs[:0], sizes: q.sizes[:0],
	}
}

// first is the first check of a kind, in rule order; nil if there is none.
func (q *Question) first(is func(*Check) bool) *Check {
	for i := range q.Checks {
		if c := &q.Checks[i]; is(c) {
			return c
		}
	}
	return nil
}
