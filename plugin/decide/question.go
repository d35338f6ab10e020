package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/lease"
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
	q.tags, c.Values = keep(q.tags, a.Values)
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
		if c.Rule.Enforced {
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

// questions are those of one Worker. A Question knows them, and not the Worker: what comes for
// it from Redis marks it as ready, and cannot let its request go on. That is Worker.goOn.
type questions struct {
	stores *Stores
	ready  readyList   // Asking or Gone, and no check waits any more
	idle   []*Question // ended, kept for their memory
}

// Bound: ended questions kept for the next ones. Beyond it, the memory of an ended question is
// freed. Protects memory after a burst.
const maxIdleQuestions = 256

// begin begins a question about a request.
func (p *questions) begin(contextID uint32) *Question {
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
	p.ready.push(q)
}

// recycle keeps a question for another request, once this one has ended and the last of its
// replies has come.
func (p *questions) recycle(q *Question) {
	if q.state != Ended || q.inPipe > 0 {
		return
	}
	must.Hold(q.waiting == 0 && !q.turn.waits && q.next == nil, "a question that has ended waits for nothing")
	p.stores.slots.forget(q)
	q.reset()
	if len(p.idle) < maxIdleQuestions {
		p.idle = append(p.idle, q)
	}
}

// discard takes a question back that was never asked.
func (p *questions) discard(q *Question) {
	must.Hold(q.state == Arriving && q.waiting == 0, "a question that is discarded was never asked")
	q.state = Ended
	p.recycle(q)
}

// readyList is the questions of which no check waits any more, in the order in which that
// came about. Those in front have their verdict.
type readyList struct {
	list
	fresh *Question // the first without a verdict, or nil
}

func (r *readyList) push(q *Question) {
	must.Hold(!q.concluded && q.waiting == 0, "a question is ready once, when no check waits")
	r.list.push(q)
	if r.fresh == nil {
		r.fresh = q
	}
}

// nextUndecided is the first question without a verdict, which is to get one; nil if all have one.
func (r *readyList) nextUndecided() *Question {
	q := r.fresh
	if q != nil {
		must.Hold(!q.concluded, "a question that is taken up has no verdict")
		r.fresh = q.next
	}
	return q
}

// pop takes out the first question that has its verdict; nil if none has.
func (r *readyList) pop() *Question {
	if r.first == r.fresh {
		return nil
	}
	return r.list.pop()
}

// remove takes out a question, if it is there.
func (r *readyList) remove(q *Question) {
	if r.fresh == q {
		r.fresh = q.next
	}
	r.list.remove(q)
}

// Status says how far a check has come.
type Status uint8

// The statuses of a check.
const (
	// Unasked: the request was concluded without it, by a remembered rejection.
	Unasked Status = iota
	// Waiting: Redis was asked.
	Waiting
	// Allowed and Rejected: it was decided.
	Allowed
	Rejected
	// Undecided: Redis will not decide it in time.
	Undecided
)

// Source is who decided a check.
type Source uint8

// The sources of decisions.
const (
	FromNone     Source = iota
	FromRedis           // a script, just now
	FromMemory          // the deny cache: what Redis said before
	FromLease           // units that Redis gave this worker
	FromEmbedded        // the embedded store, where it is the only one
	FromFallback        // the embedded store, or a remembered override, as Redis did not decide
	FromLimit           // the limit itself: it is 0
	FromBurst           // what Redis said to others of a crowd, see overdue.go
)

// Check is one applying rule's question about the request, and its answer.
type Check struct {
	Ask
	Said
	charged Charged
}

// Ask is the demand of a check, and all that a layer sees of it. Question.Keep writes it;
// calendars and overrides change its sizes.
type Ask struct {
	Rule        *rule.Rule
	rule.Demand             // its Sizes are own, as an override changes them
	own         []algo.Size // came with the request, in the calendar windows around its time
	made        *made       // by an operator's override; nil: none is known
	ahead       rule.Ahead  // what another tier may need of the request

	tells bool         // Redis was told of rejections from memory
	lent  bool         // the failure mode let it go with units that Redis had left, see burst.go
	lease *lease.Lease // nil: the limit is not leased
}

// Said is a store's word on a check. Question.answer writes it, and what a refund makes of it
// Check.uncharge; while Redis is asked, the Status alone changes.
type Said struct {
	Status    Status
	Source    Source
	Decisions []algo.Decision // parallel to Limits.Limits
	AtMicros  int64           // when it was decided, on the clock of the store that did

	// By is who decided: the limits, or the rule's terms. If it blocks, LeftMicros is
	// for how long; algo.Never for a block without end.
	By         algo.By
	LeftMicros int64
	// EarnedMicros is how long the block is that this rejection has earned; 0 for none.
	EarnedMicros int64
	// Excused: the rule's limits reject, and the request goes on all the same. See over.go.
	Excused bool
}

// Charged holds the charges of a check, those that a late reply may report included.
type Charged struct {
	receipt Receipt    // of the answer
	sent    sent       // what Redis was sent
	late    Receipt    // of an answer to that which came after the verdict
	heard   rule.Heard // what response headers say of the charge
}

// sent is the charge that Redis was asked for.
type sent struct {
	nonce int64
	// Demand is the check's then. Later the embedded store may have been asked with another.
	rule.Demand
}

// isUnasked reports whether no store has been asked, or none has said anything yet.
//
//go:inline
func isUnasked(c *Check) bool { return c.Status == Unasked }

// shows reports whether the client sees a decision: every one that a store made. An identity
// that is free of limits sees none.
func (c *Check) shows(i int) bool {
	return !c.Decisions[i].Hidden && c.By != algo.ByFree && (c.Source != FromLimit || !c.Decisions[i].Allowed)
}
