package main

import (
	"testing"
	"time"
)

// An Envoy that is reloaded keeps its counters; a limit that changed goes on
// from them.
func TestEmbeddedStoreOutlivesReload(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		before := w.load(`{"rules": [` + perClient("a", 2) + `]}`)
		w.expect("before", before.get("/", client("x")...).end(),
			result{Status: 200, Outcome: "allowed", Limit: 2, Remaining: 1, Reset: 3600})
		after := w.load(`{"rules": [` + perClient("a", 3) + `]}`)
		before.Close()
		w.clock.advance(time.Minute)
		w.expect("after", after.get("/", client("x")...).end(),
			result{Status: 200, Outcome: "allowed", Limit: 3, Remaining: 1, Reset: 3540})
	})
}

// A worker that writes between another's read and write is not overwritten.
func TestWorkersAtOnce(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		config := `{"rules": [` + perClient("a", 3) + `]}`
		other := w.sibling()
		second := other.load(config)
		rounds := 0
		w.before = func(call string) {
			if call == "proxy_set_shared_data" && rounds < 2 {
				rounds++
				w.expect("in between", second.get("/", client("x")...).end(),
					result{Status: 200, Outcome: "allowed", Limit: 3, Remaining: 3 - rounds, Reset: 3600})
			}
		}
		first := w.load(config)
		w.expect("the one that was overtaken", first.get("/", client("x")...).end(),
			result{Status: 200, Outcome: "allowed", Limit: 3, Remaining: 0, Reset: 3600})
		w.expect("the next", first.get("/", client("x")...).end(),
			result{Status: 429, Outcome: "limited:a", Limit: 3, Remaining: 0, Reset: 3600, RetryAfter: 3600})
	})
}
