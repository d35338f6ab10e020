package main

import "container/heap"

// hold is a request's place in the queue.
type hold struct {
	waits     bool
	index     int    // in the heap
	dueMicros int64  // on the steady clock
	ticket    uint64 // of those due at once, the first to come is the first to go
	then      purpose
}

// purpose is what comes when a request is held no more.
type purpose uint8

const (
	toProceed  purpose = iota // its turn in a leaky bucket comes
	toConclude                // too many are concluded in this callback already
	toFail                    // likewise, and it was not decided
)

// queue holds the admitted requests whose turn has not come, those of leaky
// buckets with "overflow": "queue", and the requests for which a callback has no
// room. A timer runs only while there are any.
type queue struct {
	heap    holdHeap
	tickets uint64
}

// hold keeps a request until its time has come.
func (q *queue) hold(r *request, dueMicros int64, then purpose) {
	q.tickets++
	r.held = hold{waits: true, dueMicros: dueMicros, ticket: q.tickets, then: then}
	heap.Push(&q.heap, r)
}

// drop takes a request out whose client is gone. Its turn passes unused.
func (q *queue) drop(r *request) {
	if r.held.waits {
		heap.Remove(&q.heap, r.held.index)
		r.held.waits = false
	}
}

// next takes out the request whose time has come first, nil if none's has.
func (q *queue) next(nowMicros int64) *request {
	if len(q.heap) == 0 || q.heap[0].held.dueMicros > nowMicros {
		return nil
	}
	r := q.heap[0]
	q.drop(r)
	return r
}

// nextMicros is the time until the next release, at least 1; 0 if none waits.
func (q *queue) nextMicros(nowMicros int64) int64 {
	if len(q.heap) == 0 {
		return 0
	}
	return max(1, q.heap[0].held.dueMicros-nowMicros)
}

// holdHeap orders requests by their time (container/heap).
type holdHeap []*request

func (h holdHeap) Len() int { return len(h) }

func (h holdHeap) Less(i, j int) bool {
	a, b := &h[i].held, &h[j].held
	if a.dueMicros != b.dueMicros {
		return a.dueMicros < b.dueMicros
	}
	return a.ticket < b.ticket
}

func (h holdHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].held.index, h[j].held.index = i, j
}

// Push implements heap.Interface.
func (h *holdHeap) Push(x any) {
	r := x.(*request)
	r.held.index = len(*h)
	*h = append(*h, r)
}

// Pop implements heap.Interface.
func (h *holdHeap) Pop() any {
	last := len(*h) - 1
	r := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return r
}
