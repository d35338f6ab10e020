package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// The workers of one Envoy share the embedded store: together they admit exactly
// the limit, of every algorithm.
func TestWorkersShareTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{
		"fixed_window", "sliding_window_log", "sliding_window_counter", "token_bucket", "leaky_bucket", "gcra",
	} {
		t.Run(algorithm, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				config := fmt.Sprintf(`{"rules": [{"name": "a", "key": [{"header": "x-client"}],
					"limits": [{"algorithm": %q, "limit": 10, "window": "1h"}]}]}`, algorithm)
				workers := []*instance{w.load(config), w.sibling().load(config)}
				admitted := map[string]int{}
				for n := range 60 {
					name := fmt.Sprint("client ", n%2)
					x := workers[n/2%2].get("/", client(name)...)
					if x.Local == nil {
						admitted[name]++
					}
					x.end()
				}
				testenv.Same(w.t, "admitted of client 0", admitted["client 0"], 10)
				testenv.Same(w.t, "admitted of client 1", admitted["client 1"], 10)
			})
		})
	}
}

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
