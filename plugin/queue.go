package main

import "container/heap"

// hold is a request's place in the queue.
type hold struct {
	waits     bool
	index     int    // in the heap
	dueMicros int64  // on the steady clock
	ticket    uint64 // of those due at once, the first to come is the first to go
}

// queue holds the admitted requests whose turn has not come: those of leaky
// buckets with "overflow": "queue". A timer runs only while there are any.
type queue struct {
	heap    holdHeap
	tickets uint64
}

// hold keeps a request until its time has come.
func (q *queue) hold(r *request, dueMicros int64) {
	q.tickets++
	r.held = hold{waits: true, dueMicros: dueMicros, ticket: q.tickets}
	heap.Push(&q.heap, r)
}

// drop takes a request out whose client is gone. Its turn passes unused.
func (q *queue) drop(r *request) {
	if r.held.waits {
		heap.Remove(&q.heap, r.held.index)
		r.held.waits = false
	}
}

// release lets every request go on whose time has come.
func (q *queue) release(nowMicros int64) {
	for len(q.heap) > 0 && q.heap[0].held.dueMicros <= nowMicros {
		r := q.heap[0]
		q.drop(r)
		enter(r.id)
		r.proceed()
	}
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
