package decide

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// However many requests one client sends at once, it is admitted its limit: the rest waits until
// the worker knows that.
func TestFloodOfOneClient(t *testing.T) {
	t.Parallel()
	const requests, limit = 72_000, 10
	w := newWorld(t, 1, fewRequests, "allow")
	for range requests {
		if w.worker.Arrive(w.begin(nil), w.now) != Pause {
			t.Fatal("it was not paused")
		}
	}
	if len(w.flying) != maxRepeats+maxFirst {
		t.Fatalf("Redis was asked about %d, want %d", len(w.flying), maxRepeats+maxFirst)
	}
	w.answer()
	for w.worker.questions.ready.first != nil || w.worker.crowd.n > 0 {
		w.ticks(1000)
	}
	states := map[State]int{}
	for _, r := range w.streams {
		states[r.question.State()]++
	}
	testenv.Same(t, "requests that were admitted", states[Passed], limit)
	testenv.Same(t, "requests that were rejected", states[Answered], requests-limit)
}

// hold begins a crowd with a request that is kept back.
func (c *crowd) hold(q *Question) {
	c.flows, c.on, c.stores.burst.on = make([]flow, maxFlows), true, true
	s := &c.flows[0]
	s.list.push(q)
	c.n++
	if s.n == 1 {
		c.await(s)
	}
}
