package main

import (
	"fmt"
	"testing"
)

// sized is a configuration, without Redis or with it, of one rule whose limit comes
// with the header x-limit.
func sized(redis, algorithm string) string {
	return `{` + redis + `"headers": ["x-ratelimit", "draft"], "rules": [{"name": "a", "limits": [{` + algorithm + `,
		"limit": {"header": "x-limit", "default": 3, "max": 10}, "window": "1h"}]}]}`
}

// A limit that comes with the request is that request's alone: stores, the deny
// cache and the headers know it, and what was used counts whatever the limit is.
func TestLimitsThatComeWithTheRequest(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []string{
		`"algorithm": "fixed_window", "anchor": "first_request"`, `"algorithm": "sliding_window_log"`,
		`"algorithm": "sliding_window_counter"`, `"algorithm": "token_bucket"`, `"algorithm": "leaky_bucket"`,
		`"algorithm": "gcra"`,
	} {
		for _, redis := range []string{"", `"redis": {"cluster": "redis"}, `} {
			t.Run(fmt.Sprintf("%.30s, %.7s", algorithm, redis), func(t *testing.T) {
				t.Parallel()
				eachWorld(t, func(t *testing.T, w *worker) {
					r := w.startRedis()
					i := w.load(sized(redis, algorithm))
					for n, step := range []struct {
						header, outcome, limit, remaining string
					}{
						{outcome: "allowed", limit: "3", remaining: "2"},
						{header: "5", outcome: "allowed", limit: "5", remaining: "3"},
						{header: "2", outcome: "limited:a", limit: "2", remaining: "0"},
						{header: "2", outcome: "limited:a", limit: "2", remaining: "0"},
						{header: "99", outcome: "allowed", limit: "10", remaining: "7"},
						{header: "many", outcome: "limited:a", limit: "3", remaining: "0"},
						{header: "0", outcome: "limited:a", limit: "0", remaining: "0"},
						{header: "4", outcome: "allowed", limit: "4", remaining: "0"},
					} {
						var headers []string
						if step.header != "" {
							headers = []string{"x-limit", step.header}
						}
						x := i.get("/", headers...)
						r.settle()
						got := x.answer(t)
						if x.outcome() != step.outcome {
							t.Errorf("step %d: outcome %q, want %q", n, x.outcome(), step.outcome)
						}
						if got["x-ratelimit-limit"] != step.limit {
							t.Errorf("step %d: limit %q, want %q", n, got["x-ratelimit-limit"], step.limit)
						}
						if got["x-ratelimit-remaining"] != step.remaining {
							t.Errorf("step %d: remaining %q, want %q", n, got["x-ratelimit-remaining"], step.remaining)
						}
						if want := fmt.Sprintf(`"a";q=%s;w=3600`, step.limit); got["ratelimit-policy"] != want {
							t.Errorf("step %d: policy %q, want %q", n, got["ratelimit-policy"], want)
						}
						x.End()
					}
				})
			})
		}
	}
}

// answer is the headers that the client gets, of the upstream's answer or of the
// plugin's own.
func (x *exchange) answer(t *testing.T) map[string]string {
	t.Helper()
	if x.Local == nil {
		x.respond()
	}
	all := map[string]string{}
	for _, h := range x.Downstream.Headers {
		all[h[0]] = h[1]
	}
	return all
}

// A limit of 0 rejects without asking anybody, and tells no wait. A cost of 0 reports.
func TestLimitOfZero(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(`{"name": "a", "cost": {"header": "x-cost", "default": 1}, "limits": [
			{"algorithm": "gcra", "limit": 0, "window": "1s", "name": "none"},
				{"algorithm": "gcra", "limit": 5, "window": "1h"}]},
			{"name": "b", "limits": [{"algorithm": "gcra", "limit": 5, "window": "1s"}]}`))
		x := i.get("/")
		r.settle()
		got := x.answer(t)
		if x.outcome() != "limited:a" {
			t.Errorf("outcome %q, want limited:a", x.outcome())
		}
		if wait, ok := got["retry-after"]; ok {
			t.Errorf("retry-after is %q, want none", wait)
		}
		if keys := r.keys(); len(keys) > 0 {
			t.Errorf("Redis has the keys %q, want none", keys)
		}
		x.End()
		x = i.get("/", "x-cost", "0")
		r.settle()
		if x.outcome() != "allowed" {
			t.Errorf("outcome of a cost of 0 is %q, want allowed", x.outcome())
		}
		x.End()
	})
}

// Each limit may have a cost of its own; what a refund gives back is that.
func TestCostsOfLimits(t *testing.T) {
	t.Parallel()
	for _, redis := range []string{"", `"redis": {"cluster": "redis"}, `} {
		t.Run(fmt.Sprintf("%.7s", redis), func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				r := w.startRedis()
				i := w.load(`{` + redis + `"headers": ["draft"], "rules": [
					{"name": "a", "cost": 2, "limits": [
						{"algorithm": "gcra", "limit": 100, "window": "1h", "name": "units"},
						{"algorithm": "fixed_window", "anchor": "first_request", "limit": 10, "window": "1h", "name": "requests",
							"cost": 1}]},
					{"name": "b", "limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1h"}]}]}`)
				for n, want := range []string{
					`"units";r=98;t=3528, "requests";r=9;t=3600, "b";r=0;t=3600`,
					`"units";r=98;t=3528, "requests";r=9;t=3600, "b";r=0;t=3600`, // rejected by b, and given back
				} {
					x := i.get("/")
					r.settle()
					if got := x.answer(t)["ratelimit"]; got != want {
						t.Errorf("request %d: %s, want %s", n, got, want)
					}
					x.End()
				}
			})
		})
	}
}

// A limit of 0 of which a request wants nothing has no state, and that of a shadow rule
// rejects no request.
func TestLimitOfZeroBesideOthers(t *testing.T) {
	t.Parallel()
	for _, redis := range []string{"", `"redis": {"cluster": "redis"}, `} {
		t.Run(fmt.Sprintf("%.7s", redis), func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				r := w.startRedis()
				i := w.load(`{` + redis + `"rules": [
					{"name": "reports", "limits": [
						{"algorithm": "gcra", "limit": 0, "window": "1s", "cost": 0, "name": "none"},
						{"algorithm": "fixed_window", "limit": 2, "window": "1h", "anchor": "first_request"}]},
					{"name": "shadow", "mode": "shadow", "limits": [{"algorithm": "gcra", "limit": 0, "window": "1h"}]}]}`)
				for n, want := range []string{"shadow:shadow", "shadow:shadow", "limited:reports"} {
					x := i.get("/")
					r.settle()
					if got := x.outcome(); got != want {
						t.Errorf("request %d: outcome %q, want %q", n, got, want)
					}
					x.End()
				}
			})
		})
	}
}
