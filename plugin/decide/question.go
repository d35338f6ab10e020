package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/must"
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
	kept          keptBack

	verdict   Verdict // once it is concluded
	concluded bool
	refused   bool // and what it charged, or turns out to have, is given back
	has       has
	asking    rule.Asking

	// Memory of all checks.
	decisions []algo.Decision
	tags      []byte
	costs     []int64
	sizes     []algo.Size
	overrides overrideMemory
}

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
		n := len(q.Checks) // in place, to avoid append's copy
		q.Checks = slices.Grow(q.Checks, 1)[:n+1]
		c := &q.Checks[n]
		*c = Check{}
		c.Rule = a.Rule
		q.tags, c.Tag = keep(q.tags, a.Tag)
		q.keep(c, &a.Demand)
		q.note(c, a) // features.go
	}
	return len(q.Checks) > 0
}

// keep copies a demand, without its tag, into a check, in the memory of the question.
func (q *Question) keep(c *Check, d *rule.Demand) {
	c.Limits = d.Limits
	q.costs, c.Costs = keep(q.costs, d.Costs)
	q.tags, c.Values = keep(q.tags, d.Values)
	q.sizes, c.Sizes = keep(q.sizes, d.Sizes)
	c.own = c.Sizes
	n := len(q.decisions) + len(d.Limits.Limits)
	q.decisions = slices.Grow(q.decisions, len(d.Limits.Limits))[:n]
	c.Decisions = q.decisions[n-len(d.Limits.Limits) : n : n]
	clear(c.Decisions)
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

// questions are all questions of one Worker. A Question knows them and not the Worker, so that a reply can
// only mark it as ready. Worker.goOn lets its request go on.
type questions struct {
	stores *Stores
	ready  readyList   // Asking or Gone, and no check waits any more
	idle   []*Question // ended, kept for their memory
}

// Bound: ended questions kept for the next ones. Beyond it, the memory of an ended question is
// freed. Protects memory after a burst.
const maxIdleQuestions = 256

// Question begins a question about a request.
func (w *Worker) Question(contextID uint32) *Question {
	p := &w.questions
	n := len(p.idle)
	if n == 0 {
		return &Question{ContextID: contextID, home: p}
	}
	q := p.idle[n-1]
	p.idle = p.idle[:n-1]
	must.Hold(q.state == Arriving && q.inPipe == 0 && len(q.Checks) == 0, "a question begins as a new one")
	q.ContextID = contextID
	return q
}

// answered takes up a question of which no check waits any more.
func (p *questions) answered(q *Question) {
	must.Hold(!q.concluded && q.waiting == 0, "a question is ready once, when no check waits")
	r := &p.ready
	r.push(q)
	if r.fresh == nil {
		r.fresh = q
	}
}

// recycle keeps a question for another request, once this one has ended and the last of its
// replies has come.
func (p *questions) recycle(q *Question) {
	if q.state != Ended || q.inPipe > 0 {
		return
	}
	must.Hold(q.waiting == 0 && !q.turn.waits && q.next == nil, "a question that has ended waits for nothing")
	for i := range q.Checks {
		r := &q.Checks[i].charged.receipt
		must.Hold(!r.Held(), "a request that has ended holds no slots")
		p.stores.slots.vacate(r) // or else a pointer to memory would be kept that is used again
	}
	clear(q.Checks)
	clear(q.overrides.ahead) // values may be long
	*q = Question{
		home: q.home, Checks: q.Checks[:0], overrides: overrideMemory{q.overrides.list[:0], q.overrides.ahead[:0]},
		decisions: q.decisions[:0], tags: q.tags[:0], costs: q.costs[:0], sizes: q.sizes[:0],
	}
	if len(p.idle) < maxIdleQuestions {
		p.idle = append(p.idle, q)
	}
}

// readyList is the questions of which no check waits any more, in the order in which that
// came about. Those in front have their verdict.
type readyList struct {
	list
	fresh *Question // the first without a verdict, or nil
}

// list is paused questions, first in, first out. A question is in one list at most, which
// needs no memory of its own.
type list struct {
	first, last *Question
	n           int
}

func (l *list) push(q *Question) {
	must.Hold(q.next == nil && l.last != q, "a question is in one list at most")
	if l.first == nil {
		l.first = q
	} else {
		l.last.next = q
	}
	l.last = q
	l.n++
}

// pop takes out the first question. There must be one.
func (l *list) pop() *Question {
	must.Hold(l.n > 0, "what is taken out of a list was put into it")
	q := l.first
	if l.first, q.next = q.next, nil; l.first == nil {
		l.last = nil
	}
	l.n--
	must.Hold((l.n == 0) == (l.first == nil), "a list is as long as it says")
	return q
}

// remove takes out a question, if it is there. The others keep their order.
func (l *list) remove(q *Question) {
	others := list{}
	for l.first != nil {
		if other := l.pop(); other != q {
			others.push(other)
		}
	}
	*l = others
}
