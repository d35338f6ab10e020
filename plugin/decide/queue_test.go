package decide

import (
	"cmp"
	"math/rand/v2"
	"testing"
)

// What is due first leaves first; of those due at once, what came first.
func TestQueueOrder(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		var q queue
		var all []*Question
		for id := range uint32(20) {
			held := &Question{ContextID: id}
			q.enqueue(held, random.Int64N(5))
			all = append(all, held)
		}
		for _, n := range random.Perm(20)[:5] {
			q.remove(all[n])
			q.remove(all[n]) // it is not there any more
		}
		left := 0
		for last := (turn{}); ; left++ {
			held := q.next(10)
			if held == nil {
				break
			}
			now := held.turn
			if order := cmp.Compare(now.dueMicros, last.dueMicros); cmp.Or(order, cmp.Compare(now.ticket, last.ticket)) < 0 {
				t.Fatalf("%+v left behind %+v", last, now)
			}
			last = now
		}
		if left != 15 {
			t.Fatalf("%d left, want 15", left)
		}
	}
}

// No request leaves before its turn.
func TestQueueNotBefore(t *testing.T) {
	t.Parallel()
	var q queue
	q.enqueue(&Question{}, 100)
	if q.next(99) != nil {
		t.Error("left early")
	}
	if got := q.nextMicros(99); got != 1 {
		t.Errorf("the next turn is in %d us, want 1", got)
	}
	if q.next(100) == nil {
		t.Error("held beyond its turn")
	}
	if got := q.nextMicros(100); got != 0 {
		t.Errorf("the next turn is in %d us, want 0: no request waits", got)
	}
}
