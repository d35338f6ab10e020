package decide

import (
	"container/heap"

	"github.com/sluiceproxy/sluice/plugin/metric"
)

// Next is the next question that can go on: first those that can be concluded, in
// the order in which they became so, then those whose turn in a queue has come.
// The event is Waits for a question to conclude, and TurnComes.
func (s *Stores) Next(now Time) (q *Question, e Event) {
	if q = s.ready.pop(); q != nil {
		return q, Waits
	}
	if q = s.askCrowd(now); q != nil {
		return q, Waits
	}
	return s.queue.next(now.SteadyMicros), TurnComes
}

// Hold queues a question until its turn comes.
func (s *Stores) Hold(q *Question, delayMicros int64, now Time) {
	s.record.Count(metric.RequestHeld, 1)
	s.queue.hold(q, now.SteadyMicros+delayMicros)
}

// fifo is the questions that can be concluded, in the order in which they became
// so.
type fifo struct {
	questions []*Question
	first     int
}

func (f *fifo) push(q *Question) { f.questions = append(f.questions, q) }

func (f *fifo) pop() *Question {
	if f.len() == 0 {
		return nil
	}
	q := f.questions[f.first]
	f.questions[f.first] = nil
	if f.first++; f.first == len(f.questions) {
		f.questions, f.first = f.questions[:0], 0
	}
	return q
}

func (f *fifo) len() int { return len(f.questions) - f.first }

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

func (q *queue) hold(held *Question, dueMicros int64) {
	q.tickets++
	held.turn = turn{waits: true, dueMicros: dueMicros, ticket: q.tickets}
	heap.Push(&q.heap, held)
}

// drop takes out a question whose client has left, if it is there. The others keep
// their turns.
func (q *queue) drop(held *Question) {
	if held.turn.waits {
		heap.Remove(&q.heap, held.turn.index)
	}
}

// next takes out the question whose turn has come first; nil if none has.
func (q *queue) next(nowMicros int64) *Question {
	if len(q.heap) == 0 || q.heap[0].turn.dueMicros > nowMicros {
		return nil
	}
	return heap.Pop(&q.heap).(*Question)
}

// nextMicros is the time until the next turn, at least 1; 0 if nobody waits.
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
