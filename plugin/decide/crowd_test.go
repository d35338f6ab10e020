package decide

import (
	"strings"
	"testing"
)

// However many requests one client sends at once, it is admitted its limit: the rest waits until
// the worker knows that.
func TestFloodOfOneClient(t *testing.T) {
	t.Parallel()
	const requests, limit = 72_000, 10
	w := newWorld(t, 1, strings.Replace(fewRequests, "%s", "allow", 1))
	w.steady = true
	for range requests {
		q := w.begin(headers{})
		r := w.requests[q]
		if w.worker.Arrive(q, w.now) != Pause {
			t.Fatal("it was not paused")
		}
		r.waited = true
	}
	if len(w.flying) != maxRepeats+maxFirst {
		t.Fatalf("Redis was asked about %d, want %d", len(w.flying), maxRepeats+maxFirst)
	}
	w.answer()
	for w.worker.questions.ready.first != nil || w.worker.crowd.n > 0 {
		w.pass(1000)
		w.tick()
	}
	admitted, exits := 0, 0
	for _, r := range w.streams {
		exits += r.exits
		if r.admitted {
			admitted++
		}
	}
	if exits != requests || admitted != limit {
		t.Errorf("%d of %d got an answer, and %d were admitted, want %d", exits, requests, admitted, limit)
	}
}

// hold begins a crowd with a request that is kept back.
func (c *crowd) hold(q *Question) {
	c.shares, c.on, c.stores.burst.on = make([]share, maxShares), true, true
	s := &c.shares[0]
	s.list.push(q)
	c.n++
	if s.n == 1 {
		c.await(s)
	}
}
