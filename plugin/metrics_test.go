package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// stats is the metrics of a worker's Envoy that are not zero, without the
// "sluice." in front; of a histogram it has the number of values. Those of the
// configuration and the build are left out.
func (w *worker) stats() map[string]int64 {
	stats := map[string]int64{}
	put := func(name string, value int) {
		name = strings.TrimPrefix(name, "sluice.")
		ofConfiguration := name == buildInfo || strings.HasPrefix(name, "config.")
		if value != 0 && !ofConfiguration {
			stats[name] = int64(value)
		}
	}
	for _, name := range w.envoy.Metrics() {
		value, _ := w.envoy.Metric(name)
		put(name, int(value)+len(w.envoy.Histogram(name)))
	}
	return stats
}

// buildInfo is the gauge that is always 1.
const buildInfo = "version.dev.build_info"

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

// statsOfOutcomes are the metrics after TestMetricsOfOutcomes' requests.
var statsOfOutcomes = map[string]int64{
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

	// Redis had neither script before the first request.
	"redis.event.unknown_script.checks_retried_total": 2,
}

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
			{"name": "tiers", "key": [{"header": "x-plan"}],
				"limits_by": {"source": {"header": "x-plan"}, "values": {"gold": "unlimited"}}}]}`)
		ask := func(path string, headers ...string) string {
			x := i.get(path, headers...)
			r.settle()
			return x.end().Outcome
		}
		for n, step := range []struct {
			path    string
			headers []string
			want    string
		}{
			{path: "/healthz", want: "exempt:health"},
			{path: "/healthz", headers: client("x"), want: "exempt:health"},
			{path: "/", want: "none"},
			{path: "/", headers: []string{"x-plan", "gold"}, want: "allowed"},
			{path: "/", headers: client("x"), want: "allowed"},
			{path: "/", headers: client("x"), want: "shadow:trial"},
			{path: "/", headers: client("x"), want: "limited:api.v1 %"},
			{path: "/", headers: client("x"), want: "limited:api.v1 %"},
			{path: "/", headers: []string{"x-client", "y", "x-plan", "gold"}, want: "allowed"},
		} {
			if got := ask(step.path, step.headers...); got != step.want {
				t.Errorf("request %d: %s, want %s", n, got, step.want)
			}
		}
		w.expectStats("before the flush", map[string]int64{})
		i.flush()
		w.expectStats("after the flush", statsOfOutcomes)
	})
}

// A limit is near from the request on that leaves less than a fifth.
func TestMetricsNearLimit(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"rules": [` + perClient("a", 10) + `]}`)
		sent := 0
		for _, step := range []struct {
			requests   int // so far
			near, over int64
		}{
			{requests: 8, near: 0, over: 0},
			{requests: 9, near: 1, over: 0},
			{requests: 10, near: 2, over: 0},
			{requests: 11, near: 2, over: 1},
		} {
			for ; sent < step.requests; sent++ {
				i.get("/", client("x")...).end()
			}
			i.flush()
			got, after := w.stats(), fmt.Sprintf("after %d requests: ", sent)
			testenv.Same(w.t, after+"near", got["rule.a.limit.a.near_limit_total"], step.near)
			testenv.Same(w.t, after+"over", got["rule.a.limit.a.over_limit_total"], step.over)
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
		got := w.stats()
		testenv.Same(w.t, "near limit a", got["rule.a.limit.a.near_limit_total"], 0)
		testenv.Same(w.t, "near limit b", got["rule.b.limit.b.near_limit_total"], 1)
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
