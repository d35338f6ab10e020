package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// Workers that lease units admit exactly the limit together, and ask Redis for
// few of their requests. What they have not spent they give back.
func TestLeases(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		const limit = 200
		r := w.startRedis()
		config := withRedis(fmt.Sprintf(`{"name": "a", "key": [{"header": "x-client"}],
			"limits": [{"algorithm": "fixed_window",
			"limit": %d, "window": "1h", "anchor": "first_request", "lease": {"units": 16, "ttl": "200ms"}}]}`, limit))
		workers := []*instance{w.load(config), w.sibling().load(config)}
		admitted := 0
		ask := func(n int) {
			x := workers[n%2].get("/", client("x")...)
			r.settle()
			if x.Local == nil {
				admitted++
			}
			x.end()
		}
		for n := range 150 {
			ask(n)
		}
		testenv.Same(w.t, "admitted of the first 150", admitted, 150)
		if writes := r.writes; writes > 50 {
			t.Errorf("%d writes to Redis for 150 requests, want few", writes)
		}
		for n := range 100 {
			ask(n)
		}
		if admitted > limit {
			t.Errorf("admitted %d, want at most %d", admitted, limit)
		}
		for _, i := range workers { // their clock is one
			i.wait(time.Second)
			r.settle()
		}
		for n := range 100 {
			ask(n)
		}
		if admitted != limit {
			t.Errorf("admitted %d in the end, want %d", admitted, limit)
		}
	})
}
