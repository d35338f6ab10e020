package main

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// stats is the metrics of a worker's Envoy that are not zero, without the
// "sluice." in front; of a histogram it has the number of values. Those of the
// configuration and the build are left out.
func (w *worker) stats() map[string]int64 {
	stats := map[string]int64{}
	for _, name := range w.envoy.Metrics() {
		value, _ := w.envoy.Metric(name)
		all := int64(value) + int64(len(w.envoy.Histogram(name)))
		name = strings.TrimPrefix(name, "sluice.")
		if all != 0 && name != buildInfo && !strings.HasPrefix(name, "config.") {
			stats[name] = all
		}
	}
	return stats
}

// buildInfo is the gauge that is always 1.
const buildInfo = "version.dev.build_info"

// flush waits until the metrics have been told.
func (i *instance) flush() { i.wait(1100 * time.Millisecond) }

func TestMetricsOfQueue(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [{"name": "q", "limits": [
			{"algorithm": "leaky_bucket", "limit": 1, "window": "10s", "burst": 4, "overflow": "queue"}]}]}`)
		step := func(what string, held, expired, waiting int64) {
			t.Helper()
			i.flush()
			got := w.stats()
			for name, want := range map[string]int64{
				"queue.held_total":       held,
				"queue.expired_total":    expired,
				"queue.waiting_requests": waiting,
			} {
				if got[name] != want {
					t.Errorf("%s: %s is %d, want %d", what, name, got[name], want)
				}
			}
		}
		first, second, third := i.get("/"), i.get("/"), i.get("/")
		step("the first goes at once", 2, 0, 2)
		second.End()
		step("the second leaves", 2, 1, 1)
		i.wait(20 * time.Second)
		step("the third had its turn", 2, 1, 0)
		first.end()
		third.end()
		step("at the end", 2, 1, 0)
	})
}

// The logs of two identities that share a slot of the embedded store, of which
// there are 4096, do not fit in it together. Which do depends on a secret; that no
// two of 300 do happens once in 50,000 times.
func TestMetricsOfEvictions(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		var limits []string
		for n := range 16 {
			limits = append(limits, fmt.Sprintf(`{"algorithm": "sliding_window_log", "limit": 1000, "window": "%dh"}`, n+1))
		}
		i := w.load(`{"rules": [{"name": "a", "key": [{"header": "x-client"}], "limits": [` + strings.Join(limits,
			",") + `]}]}`)
		const identities = 300
		for name := range identities {
			for range 40 {
				i.get("/", client(fmt.Sprint(name))...).end()
				w.clock.advance(time.Millisecond)
			}
		}
		i.flush()
		if got := w.stats()["local.evictions_total"]; got < 1 || got > identities {
			t.Errorf("%d evictions, want 1 to %d", got, identities)
		}
	})
}
