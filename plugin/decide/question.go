package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Question is all that is asked about one request: a Check for each rule that
// applies. It is used again for later requests, with the memory that it has.
type Question struct {
	// ContextID is Envoy's name of the request. No host call may use it once the state is Gone
	// or Ended.
	ContextID uint32
	// Checks are in rule order.
	Checks []Check

	home    *questions
	state   State
	waiting int       // checks that wait for Redis, and 1 while it is being asked
	inPipe  int       // checks whose last reply has not come; those that expired count
	turn    turn      // its place in the queue, while Held
	next    *Question // in the list that it is in

	arrivedMicros int64 // on the steady clock
	keptMicros    int64 // when it was kept back, see Redis.ListeningMicros; 0: it was not
	overdue       bool  // it was, for the whole timeout

	verdict   Verdict // once it is concluded
	concluded bool
	refused   bool // and what it charged, or turns out to have, is given back
	settles   bool // some rule settles what it charged when the request is over
	enforced  int  // checks whose rule can reject the request
	over      bool // some rule has an over, see over.go

	asking rule.Asking

	// Memory of all checks.
	decisions []algo.Decision
	tags      []byte
	costs     []int64
	sizes     []algo.Size
	mades     []made
	ahead     rule.Ahead
}

// State is where the request is in its life.
func (q *Question) State() State { return q.state }

// add appends a check of what applies, made in its place: what append takes is made elsewhere, and
// copied.
//
//go:inline
func (q *Question) add(a *rule.Applied) *Check {
	n := len(q.Checks)
	q.Checks = slices.Grow(q.Checks, 1)[:n+1]
	c := &q.Checks[n]
	*c = Check{}
	c.Rule, c.Limits = a.Rule, a.Limits
	q.tags, c.Tag = keep(q.tags, a.Tag)
	q.costs, c.Costs = keep(q.costs, a.Costs)
	if a.Values != nil {
		q.tags, c.Values = keep(q.tags, a.Values)
		q.keepBorrowing(&c.Ask)
	}
	q.keepLists(&c.Ask)
	q.sizes, c.Sizes = keep(q.sizes, a.Sizes)
	c.own = c.Sizes
	if a.Ahead != nil {
		q.ahead, c.ahead = keep(q.ahead, a.Ahead)
	}
	q.decisions, c.Decisions = roomFor(q.decisions, len(a.Limits.Limits))
	return c
}

// Keep copies the rules that apply, since the request may outlive the matcher's
// memory. It reports whether there is anything to decide.
func (q *Question) Keep(applied []rule.Applied) bool {
	for i := range applied {
		a := &applied[i]
		if a.Limits == nil {
			continue // an unlimited tier: there is nothing to decide
		}
		c := q.add(a)
		q.settles = q.settles || a.Rule.Settle != nil
		if c.Enforced() {
			q.over = q.over || a.Rule.Over != nil
			q.enforced++
		}
	}
	return len(q.Checks) > 0
}

// reset makes the question one about another request.
func (q *Question) reset() {
	clear(q.Checks)
	clear(q.ahead) // values may be long
	*q = Question{
		home: q.home, Checks: q.Checks[:0],
		decisions: q.decisions[:0], tags: q.tags[:0], costs: q.costs[:0], sizes: q.sizes[:0], mades: q.mades[:0],
		ahead: q.ahead[:0],
	}
}

// first returns the first check of a kind, in rule order, or nil.
//
//go:inline
func (q *Question) first(is func(*Check) bool) *Check {
	for i := range q.Checks {
		if c := &q.Checks[i]; is(c) {
			return c
		}
	}
	return nil
}

// unask takes the answers of a source back.
func (q *Question) unask(from Source) {
	for i := range q.Checks {
		if c := &q.Checks[i]; c.Source == from {
			c.Status, c.Source = Unasked, FromNone
		}
	}
}
