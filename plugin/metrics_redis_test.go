package main

import (
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// The breaker's state is that of all workers, an outage is counted once, and a
// worker whose configuration is closed takes its part with it.
func TestMetricsOfBreaker(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		m := &wasmhost.Memory{}
		w.connect(m)
		w.answersTrial = true
		config := `{"redis": {"cluster": "redis"}, "rules": [` + perClient("a", 2) + `],
			"failure": {"breaker": {"failures": 1, "min_open": "10s", "max_open": "10s"}}}`
		i, other := w.load(config), w.sibling().load(config)
		// Each has connected to check Redis at its start.
		fail := func(i *instance, connection *wasmhost.Conn) {
			x := i.get("/", client("x")...)
			connection.Reply("-OOM full\r\n")
			x.end()
			i.flush()
		}
		step := func(what string, closed, open, openings int64) {
			t.Helper()
			got := w.stats()
			for name, want := range map[string]int64{
				"redis.state.closed.breaker_workers":    closed,
				"redis.state.half_open.breaker_workers": 0,
				"redis.state.open.breaker_workers":      open,
				"redis.breaker_openings_total":          openings,
			} {
				if got[name] != want {
					t.Errorf("%s: %s is %d, want %d", what, name, got[name], want)
				}
			}
		}
		i.flush()
		step("none has been asked", 0, 0, 0)
		fail(i, m.Conns[0])
		step("one fails", 0, 1, 1)
		fail(other, m.Conns[1])
		step("both fail", 0, 2, 2)
		probed := func(reply string) {
			m.Conns[0].Take()
			for waited := time.Duration(0); len(m.Conns[0].Take()) == 0; waited += time.Millisecond {
				if waited > time.Minute {
					t.Fatal("no probe")
				}
				i.wait(time.Millisecond)
			}
			m.Conns[0].Reply(reply)
			i.flush()
		}
		probed("-OOM full\r\n")
		step("one is probed in vain", 0, 2, 2)
		probed("+OK\r\n")
		step("one is back", 1, 1, 2)
		i.Close()
		step("and closed", 0, 1, 2)
	})
}

func TestMetricsOfRedis(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(`{"redis": {"cluster": "redis", "timeout": "10s"}, "deny_cache": {"size": 0}, "rules": [` +
			perClient("a", 9) + "," + perClient("b", 1) + `]}`)
		step := func(what string, checks, refunds, inFlight, reconnects int64) {
			t.Helper()
			i.flush()
			got := w.stats()
			for name, want := range map[string]int64{
				"redis.checks_total":       checks,
				"redis.refunds_total":      refunds,
				"redis.in_flight_requests": inFlight,
				"redis.reconnects_total":   reconnects,
			} {
				if got[name] != want {
					t.Errorf("%s: %s is %d, want %d", what, name, got[name], want)
				}
			}
		}
		ask := func() {
			x := i.get("/", client("x")...)
			r.settle()
			x.end()
		}
		ask()
		step("admitted", 2, 0, 0, 0)
		ask()
		step("rejected by one, given back to the other", 4, 1, 0, 0)
		waits := i.get("/", client("y")...)
		step("one waits", 6, 1, 1, 0)
		r.settle()
		waits.end()
		step("no more", 6, 1, 0, 0)
		r.Conns[0].Close(wasmhost.GRPCInternal)
		i.wait(time.Millisecond)
		ask()
		step("the connection was lost", 8, 2, 0, 1)
	})
}

// Every unit that is taken is spent or returned, also if another rule rejects.
func TestMetricsOfLeases(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(`{"name": "a", "limits": [{"algorithm": "fixed_window", "limit": 1000, "window": "1h",
			"anchor": "first_request", "lease": {"units": 10, "ttl": "1s"}}]},
			{"name": "b", "match": {"path": "/b"}, "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}]}`))
		atOnce := int64(0)
		for range 40 {
			x := i.get("/")
			if !x.waits() {
				atOnce++
			}
			r.settle()
			x.end()
		}
		for range 3 { // the second and third are rejected
			x := i.get("/b")
			r.settle()
			x.end()
		}
		i.wait(3 * time.Second)
		r.settle()
		i.flush()
		got := w.stats()
		taken, spent, returned := got["lease.event.taken.units_total"], got["lease.event.spent.units_total"],
			got["lease.event.returned.units_total"]
		if atOnce == 0 {
			t.Error("each request waited: this test shows nothing")
		}
		testenv.Same(w.t, "units spent", spent, atOnce+1)
		testenv.Same(w.t, "units spent and returned", spent+returned, taken)
		testenv.Same(w.t, "units taken, modulo a batch", taken%10, 0)
		testenv.Same(w.t, "checks", got["redis.checks_total"], 40-atOnce+taken/10+2)
	})
}
