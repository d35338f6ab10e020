package decide

import "github.com/sluiceproxy/sluice/plugin/must"

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
