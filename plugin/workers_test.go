package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// An Envoy that is reloaded keeps its counters; a limit that changed goes on
// from them.
func TestEmbeddedStoreOutlivesReload(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		before := w.load(`{"rules": [` + perClient("a", 2) + `]}`)
		testenv.Same(t, "before", before.get("/", client("x")...).end(),
			"200 allowed limit=2 remaining=1 reset=3600")
		after := w.load(`{"rules": [` + perClient("a", 3) + `]}`)
		before.Close()
		w.clock.advance(time.Minute)
		testenv.Same(t, "after", after.get("/", client("x")...).end(),
			"200 allowed limit=3 remaining=1 reset=3540")
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
		w.Before = func(call string) {
			if call == "proxy_set_shared_data" && rounds < 2 {
				rounds++
				testenv.Same(t, "in between", second.get("/", client("x")...).end(),
					fmt.Sprintf("200 allowed limit=3 remaining=%d reset=3600", 3-rounds))
			}
		}
		first := w.load(config)
		testenv.Same(t, "the one that was overtaken", first.get("/", client("x")...).end(),
			"200 allowed limit=3 remaining=0 reset=3600")
		testenv.Same(t, "the next", first.get("/", client("x")...).end(),
			"429 limited:a limit=3 remaining=0 reset=3600 retry-after=3600")
	})
}
