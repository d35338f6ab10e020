package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// stats is the metrics of a worker's Envoy that are not zero, without the
// "sluice." in front; of a histogram it has the number of values. Those of the
// configuration are left out.
func (w *worker) stats() map[string]int64 {
	stats := map[string]int64{}
	put := func(name string, value int) {
		name = strings.TrimPrefix(name, "sluice.")
		if value != 0 && !strings.HasPrefix(name, "config.") {
			stats[name] = int64(value)
		}
	}
	for _, name := range w.envoy.Metrics() {
		value, _ := w.envoy.Metric(name)
		put(name, int(value)+len(w.envoy.Histogram(name)))
	}
	return stats
}

// expectStats compares the metrics with those wanted.
func (w *worker) expectStats(step string, want map[string]int64) {
	w.t.Helper()
	got := w.stats()
	for _, name := range slices.Sorted(maps.Keys(got)) {
		if got[name] != want[name] {
			w.t.Errorf("%s: %s is %d, want %d", step, name, got[name], want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		if _, ok := got[name]; !ok && want[name] != 0 {
			w.t.Errorf("%s: %s is 0, want %d", step, name, want[name])
		}
	}
}

// flush waits until the metrics have been told.
func (i *instance) flush() { i.wait(1100 * time.Millisecond) }

// Each outcome is counted once for the request, and for each rule as that rule
// decided it.
func TestMetricsOfOutcomes(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(`{"redis": {"cluster": "redis"}, "deny_cache": {"size": 0}, "rules": [
			{"name": "health", "match": {"path": "/healthz"}, "exempt": true},
			` + perClient("api.v1 %", 2) + `,
			{"name": "trial", "mode": "shadow", "key": [{"header": "x-client"}], "limits": [
				{"algorithm": "fixed_window", "limit": 1, "window": "1h", "anchor": "first_request", "name": "one.an hour"}]},
			{"name": "tiers", "key": [{"header": "x-plan"}], "limits_by": {"source": {"header": "x-plan"}, "values": {"gold": "unlimited"}}}]}`)
		ask := func(path string, headers ...string) string {
			x := i.get(path, headers...)
			r.settle()
			return strings.Fields(x.end())[1]
		}
		for n, step := range []struct {
			path    string
			headers []string
			want    string
		}{
			{"/healthz", nil, "exempt:health"},
			{"/healthz", client("x"), "exempt:health"},
			{"/", nil, "none"},
			{"/", []string{"x-plan", "gold"}, "allowed"},
			{"/", client("x"), "allowed"},
			{"/", client("x"), "shadow:trial"},
			{"/", client("x"), "limited:api.v1"},
			{"/", client("x"), "limited:api.v1"},
			{"/", []string{"x-client", "y", "x-plan", "gold"}, "allowed"},
		} {
			if got := ask(step.path, step.headers...); got != step.want {
				t.Errorf("request %d: %s, want %s", n, got, step.want)
			}
		}
		w.expectStats("before the flush", map[string]int64{})
		i.flush()
		w.expectStats("after the flush", map[string]int64{
			"outcome.exempt.requests_total":         2,
			"outcome.none.requests_total":           1,
			"outcome.allowed.requests_total":        3,
			"outcome.shadow_limited.requests_total": 1,
			"outcome.limited.requests_total":        2,

			"rule.health.outcome.exempt.rule_requests_total":          2,
			"rule.api%2Ev1%20%25.outcome.allowed.rule_requests_total": 3,
			"rule.api%2Ev1%20%25.outcome.limited.rule_requests_total": 2,
			"rule.trial.outcome.allowed.rule_requests_total":          2,
			"rule.trial.outcome.shadow_limited.rule_requests_total":   3,
			"rule.tiers.outcome.allowed.rule_requests_total":          2,

			"rule.api%2Ev1%20%25.limit.api%2Ev1%20%25.near_limit_total": 1,
			"rule.api%2Ev1%20%25.limit.api%2Ev1%20%25.over_limit_total": 2,
			"rule.trial.limit.one%2Ean%20hour.near_limit_total":         2,
			"rule.trial.limit.one%2Ean%20hour.over_limit_total":         3,

			"redis.checks_total":                 10,
			"redis.round_trip_microseconds":      10,
			"redis.state.closed.breaker_workers": 1,
		})
	})
}

// A limit is near from the request on that leaves less than a fifth.
func TestMetricsNearLimit(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + perClient("a", 10) + `]}`)
		const near, over = "rule.a.limit.a.near_limit_total", "rule.a.limit.a.over_limit_total"
		for n, want := range []map[string]int64{7: {}, 8: {near: 1}, 9: {near: 2}, 10: {near: 2, over: 1}} {
			i.get("/", client("x")...).end()
			if want == nil {
				continue
			}
			i.flush()
			got := w.stats()
			if got[near] != want[near] || got[over] != want[over] {
				t.Errorf("after %d of 10: %d near, %d over; want %v", n+1, got[near], got[over], want)
			}
		}
	})
}

// A limit is not near for a request that another rule rejects.
func TestMetricsNearLimitOfRejected(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + perClient("a", 2) + "," + perClient("b", 1) + `]}`)
		for range 2 {
			i.get("/", client("x")...).end()
		}
		i.flush()
		if got := w.stats(); got["rule.a.limit.a.near_limit_total"] != 0 || got["rule.b.limit.b.near_limit_total"] != 1 {
			t.Errorf("%v, want b near once and a never", got)
		}
	})
}

// Requests that no limit applies to are told as soon as others.
func TestMetricsOfUnlimited(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [{"name": "health", "match": {"path": "/healthz"}, "exempt": true}]}`)
		i.flush()
		i.get("/healthz").end()
		i.get("/").end()
		i.flush()
		w.expectStats("two requests", map[string]int64{
			"outcome.exempt.requests_total":                  1,
			"outcome.none.requests_total":                    1,
			"rule.health.outcome.exempt.rule_requests_total": 1,
		})
	})
}

// causeNames are those of the causes in metrics.
var causeNames = map[string]string{
	"timeout":                            "timeout",
	"connection lost":                    "unreachable",
	"no such cluster":                    "unreachable",
	"connection refused inside the call": "unreachable",
	"connection refused later":           "unreachable",
	"closed inside the send":             "unreachable",
	"error reply":                        "error_reply",
	"no RESP":                            "malformed_reply",
	"a reply of another shape":           "malformed_reply",
	"too many wait":                      "overload",
	"breaker open":                       "breaker_open",
}

// Every cause of a failure is counted under its name, and what becomes of the
// request under the mode.
func TestMetricsOfFailures(t *testing.T) {
	t.Parallel()
	for mode, outcome := range map[string]string{"allow": "failed_allow", "deny": "failed_deny", "local": "local_allowed"} {
		for _, c := range causes {
			t.Run(mode+"/"+c.name, func(t *testing.T) {
				t.Parallel()
				eachWorld(t, func(t *testing.T, w *worker) {
					w.config = failing(mode, c.failure)
					c.cause(w).end()
					w.loaded[0].flush()
					requests := int64(1)
					if c.name == "breaker open" || c.name == "too many wait" {
						requests++ // one that failed for the sake of this one
					}
					got := w.stats()
					for name, want := range map[string]int64{
						"redis.cause." + causeNames[c.name] + ".errors_total": 1,
						"outcome." + outcome + ".requests_total":              requests,
						"rule.a.outcome." + outcome + ".rule_requests_total":  requests,
					} {
						if got[name] != want {
							t.Errorf("%s is %d, want %d; all: %v", name, got[name], want, got)
						}
					}
				})
			})
		}
	}
}

// What the embedded store rejects in place of Redis has an outcome of its own.
func TestMetricsOfLocalMode(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		w.config = failing("local", "")
		i := w.fake(nil)
		for range 3 {
			i.get("/", client("x")...).end()
		}
		i.flush()
		w.expectStats("3 requests", map[string]int64{
			"outcome.local_allowed.requests_total":             2,
			"outcome.local_limited.requests_total":             1,
			"rule.a.outcome.local_allowed.rule_requests_total": 2,
			"rule.a.outcome.local_limited.rule_requests_total": 1,
			"rule.a.limit.a.near_limit_total":                  1,
			"rule.a.limit.a.over_limit_total":                  1,
			"redis.cause.unreachable.errors_total":             3,
			"redis.state.closed.breaker_workers":               1,
		})
	})
}

// The breaker's state is that of all workers, an outage is counted once, and a
// worker whose configuration is closed takes its part with it.
func TestMetricsOfBreaker(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		m := &wasmhost.Memory{}
		w.connect(m)
		config := `{"redis": {"cluster": "redis"}, "rules": [` + perClient("a", 2) + `],
			"failure": {"breaker": {"failures": 1, "min_open": "10s", "max_open": "10s"}}}`
		i, other := w.load(config), w.sibling().load(config)
		fail := func(i *instance) {
			x := i.get("/", client("x")...)
			m.Last().Reply("-OOM full\r\n")
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
		step("nothing was asked", 0, 0, 0)
		fail(i)
		step("one fails", 0, 1, 1)
		fail(other)
		step("both fail", 0, 2, 2)
		probed := func(reply string) {
			m.Conns[0].Take()
			for len(m.Conns[0].Take()) == 0 {
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
		r.conns[0].close(wasmhost.GRPCInternal)
		i.wait(time.Millisecond)
		ask()
		step("the connection was lost", 8, 2, 0, 1)
	})
}

// What is rejected from memory is not asked, nor counted, of a rule in shadow.
func TestMetricsOfDenyCache(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(perClient("a", 1) + `, {"name": "trial", "mode": "shadow", "limits": [
			{"algorithm": "fixed_window", "limit": 1000, "window": "1h"}]}`))
		for range 5 {
			x := i.get("/", client("x")...)
			r.settle()
			x.end()
		}
		i.flush()
		w.expectStats("5 requests", map[string]int64{
			"outcome.allowed.requests_total":             1,
			"outcome.limited.requests_total":             4,
			"rule.a.outcome.allowed.rule_requests_total": 1,
			"rule.a.outcome.limited.rule_requests_total": 4,
			"rule.a.limit.a.near_limit_total":            1,
			"rule.a.limit.a.over_limit_total":            4,
			"deny_cache.hits_total":                      3,
			"redis.checks_total":                         4,
			"redis.refunds_total":                        1,
			"redis.round_trip_microseconds":              4,
			"redis.state.closed.breaker_workers":         1,

			"rule.trial.outcome.allowed.rule_requests_total": 2,
		})
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
		taken, spent, returned := got["lease.event.taken.units_total"], got["lease.event.spent.units_total"], got["lease.event.returned.units_total"]
		if atOnce == 0 || spent != atOnce+1 || taken != spent+returned || taken%10 != 0 {
			t.Errorf("%d units taken, %d spent, %d returned; %d requests did not wait", taken, spent, returned, atOnce)
		}
		if asked := 40 - atOnce + taken/10 + 2; got["redis.checks_total"] != asked {
			t.Errorf("%d checks, want %d", got["redis.checks_total"], asked)
		}
	})
}

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
// there are 4096, do not fit in it together.
func TestMetricsOfEvictions(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		var limits []string
		for n := range 16 {
			limits = append(limits, fmt.Sprintf(`{"algorithm": "sliding_window_log", "limit": 1000, "window": "%dh"}`, n+1))
		}
		i := w.load(`{"rules": [{"name": "a", "key": [{"header": "x-client"}], "limits": [` + strings.Join(limits, ",") + `]}]}`)
		for _, name := range []string{"36", "61"} { // the SHA-256 of a|36 and a|61 name one slot
			for range 40 {
				i.get("/", client(name)...).end()
				w.clock.advance(time.Millisecond)
			}
		}
		i.flush()
		if got := w.stats()["local.evictions_total"]; got != 1 {
			t.Errorf("%d evictions, want 1", got)
		}
	})
}

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
		if want := w.clock.now.Add(-1100 * time.Millisecond).Unix(); generation == 0 || loaded != want {
			t.Errorf("generation %d, loaded at %d, want %d", generation, loaded, want)
		}
		w.clock.advance(time.Minute)
		at := w.clock.now.Unix()
		var after *instance
		if calls := w.callsOf(func() { after = w.load(config) }); calls["proxy_define_metric"] != 0 {
			t.Errorf("the reload defined %d metrics", calls["proxy_define_metric"])
		}
		before.get("/", client("x")...).end()
		before.Close() // tells what it still has
		after.get("/", client("x")...).end()
		after.flush()
		w.expectStats("after the reload", map[string]int64{
			"outcome.allowed.requests_total":             3,
			"rule.a.outcome.allowed.rule_requests_total": 3,
		})
		if again, loadedAgain := w.newest(); again != generation+1 || loadedAgain != at {
			t.Errorf("generation %d, loaded at %d; want %d at %d", again, loadedAgain, generation+1, at)
		}
	})
}

// newest is the generation of the configuration, and when it was loaded, in Unix
// time.
func (w *worker) newest() (generation, loaded int64) {
	for name, into := range map[string]*int64{"sluice.config.generation": &generation, "sluice.config.load_timestamp_seconds": &loaded} {
		value, _ := w.envoy.Metric(name)
		*into = int64(value)
	}
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
		at := w.clock.now.Unix()
		third := w.load(`{"rules": [` + perClient("c", 9) + `]}`)
		for _, i := range []*instance{third, second} {
			i.flush()
			if generation, loaded := w.newest(); generation != before+2 || loaded != at {
				t.Errorf("generation %d, loaded at %d; want %d at %d", generation, loaded, before+2, at)
			}
		}
		first.get("/", client("x")...).end()
		first.Close()
		if generation, loaded := w.newest(); generation != before+2 || loaded != at {
			t.Errorf("after a close: generation %d, loaded at %d; want %d at %d", generation, loaded, before+2, at)
		}
	})
}

// A configuration that is refused defines nothing, and neither does the bridge.
func TestNoMetrics(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		if _, err := w.start(`{"rules": []}`); err == nil {
			t.Error("a configuration without rules was taken")
		}
		w.load(`{"role": "bridge"}`)
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
		if calls[add] != 0 || calls[record] != 0 || calls[timer] != 1 {
			t.Errorf("100 requests made the calls %v, want none for the metrics and one for the timer", calls)
		}
		calls = w.callsOf(i.flush)
		if want := map[string]int{add: 2, timer: 1}; !maps.Equal(justMetrics(calls, add, record, timer), want) {
			t.Errorf("a flush made the calls %v, want %v", calls, want)
		}
	})
}

func justMetrics(calls map[string]int, names ...string) map[string]int {
	some := map[string]int{}
	for _, name := range names {
		if calls[name] > 0 {
			some[name] = calls[name]
		}
	}
	return some
}
