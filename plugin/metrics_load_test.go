package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// A reload defines no metric anew, as Envoy would keep both, and counts on. The
// generation goes up, and the time of the load with it.
func TestMetricsOfReload(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		config := `{"rules": [` + perClient("a", 9) + `]}`
		before := w.load(config)
		before.get("/", client("x")...).end()
		before.flush()
		generation, loaded := w.newest()
		if generation == 0 {
			t.Error("the generation is 0")
		}
		testenv.Same(w.t, "load time", loaded, uint64(w.clock.now.Add(-1100*time.Millisecond).Unix()))
		w.clock.advance(time.Minute)
		at := uint64(w.clock.now.Unix())
		var after *instance
		if calls := w.callsOf(func() { after = w.load(config) }); calls["proxy_define_metric"] != 0 {
			t.Errorf("the reload defined %d metrics", calls["proxy_define_metric"])
		}
		before.get("/", client("x")...).end()
		before.Close() // tells what it still has
		after.get("/", client("x")...).end()
		after.flush()
		testenv.Same(w.t, "the metrics after the reload", fmt.Sprint(w.stats()), fmt.Sprint(map[string]int64{
			"outcome.allowed.requests_total":             3,
			"rule.a.outcome.allowed.rule_requests_total": 3,
		}))
		again, loadedAgain := w.newest()
		testenv.Same(w.t, "the next generation", again, generation+1)
		testenv.Same(w.t, "its load time", loadedAgain, at)
	})
}

// newest is the generation of the configuration, and when it was loaded, in Unix
// time.
func (w *worker) newest() (generation, loaded uint64) {
	generation, _ = w.envoy.Metric("sluice.config.generation")
	loaded, _ = w.envoy.Metric("sluice.config.load_timestamp_seconds")
	return generation, loaded
}

// Of the configurations of several listeners the newest is told, in whatever order
// their timers tick.
func TestMetricsOfSeveralListeners(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		first := w.load(`{"rules": [` + perClient("a", 9) + `]}`)
		first.flush()
		before, _ := w.newest()
		second := w.load(`{"rules": [` + perClient("b", 9) + `]}`)
		w.clock.advance(time.Minute)
		at := uint64(w.clock.now.Unix())
		third := w.load(`{"rules": [` + perClient("c", 9) + `]}`)
		for _, i := range []*instance{third, second} {
			i.flush()
			generation, loaded := w.newest()
			testenv.Same(w.t, "generation", generation, before+2)
			testenv.Same(w.t, "load time", loaded, at)
		}
		first.get("/", client("x")...).end()
		first.Close()
		generation, loaded := w.newest()
		testenv.Same(w.t, "generation after a close", generation, before+2)
		testenv.Same(w.t, "load time after a close", loaded, at)
	})
}

// A configuration that is refused defines nothing.
func TestNoMetrics(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		if _, err := w.start(`{"rules": []}`); err == nil {
			t.Error("a configuration without rules was taken")
		}
		if got := w.host.Calls["proxy_define_metric"]; got != 0 {
			t.Errorf("%d metrics were defined", got)
		}
	})
}

// Requests cost no call for the metrics; a flush costs one for each metric that
// has changed, however often.
func TestHostCallsOfMetrics(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + perClient("a", 1000) + `]}`)
		i.flush()
		const add, record, timer = "proxy_increment_metric", "proxy_record_metric", "proxy_set_tick_period_milliseconds"
		calls := w.callsOf(func() {
			for range 100 {
				i.get("/", client("x")...).end()
			}
		})
		testenv.Same(w.t, "100 requests: "+add, calls[add], 0)
		testenv.Same(w.t, "100 requests: "+record, calls[record], 0)
		testenv.Same(w.t, "100 requests: "+timer, calls[timer], 1)
		calls = w.callsOf(i.flush)
		testenv.Same(w.t, "a flush: "+add, calls[add], 2)
		testenv.Same(w.t, "a flush: "+record, calls[record], 0)
		testenv.Same(w.t, "a flush: "+timer, calls[timer], 1)
	})
}
