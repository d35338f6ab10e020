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
	w := newWorld(t, 1, fewRequests, "allow", 4096)
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
		ticks(1000, w)
	}
	states := map[State]int{}
	for _, r := range w.streams {
		states[r.question.State()]++
	}
	testenv.Same(t, "requests that were admitted", states[Passed], limit)
	testenv.Same(t, "requests that were rejected", states[Answered], requests-limit)
}
