package decide

import (
	"container/heap"

	"github.com/sluiceproxy/sluice/plugin/must"
)

// turn is a question's place in the queue.
type turn struct {
	waits     bool
	index     int    // in the heap
	dueMicros int64  // on the steady clock
	ticket    uint64 // of those due at once, the first to come is the first to go
}

// queue holds the admitted requests whose turn has not come: those of leaky
// buckets with "overflow": "queue".
type queue struct {
	heap    turnHeap
	tickets uint64
}

func (q *queue) enqueue(held *Question, dueMicros int64) {
	must.Hold(!held.turn.waits, "a question is in the queue once")
	q.tickets++
	held.turn = turn{waits: true, dueMicros: dueMicros, ticket: q.tickets}
	heap.Push(&q.heap, held)
}

// remove takes out a question whose client has left, if it is there. The others keep
// their turns.
//
//go:noinline
func (q *queue) remove(held *Question) {
	if held.turn.waits {
		must.Hold(q.heap[held.turn.index] == held, "a question knows its place in the heap")
		heap.Remove(&q.heap, held.turn.index)
	}
}

// next takes out the question whose turn has come first; nil if none has.
func (q *queue) next(nowMicros int64) *Question {
	if len(q.heap) == 0 || q.heap[0].turn.dueMicros > nowMicros {
		return nil
	}
	next := heap.Pop(&q.heap).(*Question)
	must.Hold(len(q.heap) == 0 || q.heap[0].turn.dueMicros >= next.turn.dueMicros, "the earliest turn comes first")
	return next
}

// nextMicros is the time until the next turn, at least 1; 0 if no request waits.
func (q *queue) nextMicros(nowMicros int64) int64 {
	if len(q.heap) == 0 {
		return 0
	}
	return max(1, q.heap[0].turn.dueMicros-nowMicros)
}

// turnHeap orders questions by their turns (container/heap).
type turnHeap []*Question

func (h turnHeap) Len() int { return len(h) }

func (h turnHeap) Less(i, j int) bool {
	a, b := &h[i].turn, &h[j].turn
	if a.dueMicros != b.dueMicros {
		return a.dueMicros < b.dueMicros
	}
	return a.ticket < b.ticket
}

func (h turnHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].turn.index, h[j].turn.index = i, j
}

// Push implements heap.Interface.
func (h *turnHeap) Push(x any) {
	q := x.(*Question)
	q.turn.index = len(*h)
	*h = append(*h, q)
}

// Pop implements heap.Interface.
func (h *turnHeap) Pop() any {
	last := len(*h) - 1
	q := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	q.turn.waits = false
	return q
}
