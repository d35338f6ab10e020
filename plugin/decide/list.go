package decide

// list is paused questions, first in, first out. A question is in one list at most, which
// needs no memory of its own.
type list struct {
	first, last *Question
	n           int
}

func (l *list) push(q *Question) {
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
	q := l.first
	l.first, q.next = q.next, nil
	l.n--
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
	fresh *Question // the first without a verdict; nil if there is none
}

func (r *readyList) push(q *Question) {
	r.list.push(q)
	if r.fresh == nil {
		r.fresh = q
	}
}

// nextUndecided is the first question without a verdict, which is to get one; nil if all have one.
func (r *readyList) nextUndecided() *Question {
	q := r.fresh
	if q != nil {
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
