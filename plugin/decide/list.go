package decide

import "github.com/sluiceproxy/sluice/plugin/must"

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
