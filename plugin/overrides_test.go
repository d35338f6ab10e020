package main

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// overridden is a rule of five an hour for each x-client that reads overrides.
func overridden(more string) string {
	return `{"name": "a", "key": [{"header": "x-client"}], "overrides": true,
		"limits": [{"algorithm": "fixed_window", "limit": 5, "window": "1h", "anchor": "first_request"}]` + more + `}`
}

const overrideOfX = "rl:{a|x}:override"

// override sets what an operator would; "" takes it away.
func (r *realRedis) override(key, value string, life time.Duration) {
	r.t.Helper()
	var err error
	if value == "" {
		err = r.client().Del(context.Background(), key).Err()
	} else {
		err = r.client().Set(context.Background(), key, value, life).Err()
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

// A worker asks again once about an override that it does not know, then remembers it.
func TestOverrideIsRemembered(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(overridden("")))
		calls := func() int {
			x := i.get("/", client("x")...)
			before := r.calls()
			r.settle()
			testenv.Same(t, "outcome", x.end().Outcome, "allowed")
			return r.calls() - before
		}
		calls() // the script is known
		for _, value := range []string{"nonsense", "x9", "limits:a=77"} {
			r.override(overrideOfX, value, 0)
			for n, want := range []int{1, 0, 0, 0} {
				if got := calls(); got != want {
					t.Errorf("request %d, %s: asked again %d times, want %d", n+1, value, got, want)
				}
				w.clock.advance(time.Hour)
			}
		}
	})
}

// calls is how many commands the plugin has sent.
func (r *realRedis) calls() (n int) {
	for _, c := range r.conns {
		n += c.sent
	}
	return n
}

// What is remembered of a client holds for less than a second where an operator may
// have set something else, and a hammering client costs one call meanwhile.
func TestMemoryOfOverrides(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, first, outcome, second, then string
	}{
		{"a rejection, then free", "x0.001", "limited:a", "free", "allowed"},
		{"a rejection, then a block", "x0.001", "limited:a", "block", "blocked:a"},
		{"a rejection, then a factor", "x0.001", "limited:a", "x2", "allowed"},
		{"a block, then nothing", "block", "blocked:a", "", "allowed"},
		{"a block, then free", "block", "blocked:a", "free", "allowed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				r := w.startRedis()
				i := w.load(withRedis(overridden("")))
				ask := func(want string) (writes int) {
					before := r.writes()
					x := i.get("/", client("x")...)
					r.settle()
					testenv.Same(t, "outcome", x.end().Outcome, want)
					return r.writes() - before
				}
				ask("allowed")
				r.override(overrideOfX, tc.first, 0)
				ask(tc.outcome)
				r.override(overrideOfX, tc.second, 0)
				w.clock.advance(899 * time.Millisecond)
				if got := ask(tc.outcome); got != 0 {
					t.Errorf("asked Redis %d times about a client it had just rejected", got)
				}
				w.clock.advance(time.Millisecond)
				ask(tc.then)
			})
		})
	}
}

// What is said of a block: a problem of its own, to gRPC clients in their way, and in
// filter state no limit.
func TestAnswerToABlock(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(overridden("")))
		const problem = `{"type":"https://iana.org/assignments/http-problem-types#abnormal-usage-detected","title":"Too ` +
			`Many Requests","status":429,"detail":"Blocked.%s"}`
		r.override("rl:{a|for ever}:override", "block", 0) // not this one: a space is escaped
		r.override("rl:{a|for%20ever}:override", "block", 0)
		r.override("rl:{a|hour}:override", "block", time.Hour)
		for _, tc := range []struct {
			client, retry string
			state         string
		}{
			{"for ever", "", `{"limit":null,"identity":"for%20ever"}`},
			{"hour", " Retry after 3600 seconds.", `{"limit":null,"identity":"hour","retry_after":3600}`},
		} {
			for _, grpc := range []bool{false, true} {
				headers := client(tc.client)
				if grpc {
					headers = append(headers, "content-type", "application/grpc")
				}
				x := i.get("/", headers...)
				r.settle()
				got := x.local()
				body, status := fmt.Sprintf(problem, tc.retry), int32(-1)
				if grpc {
					body, status = "Blocked."+tc.retry, 8
				}
				testenv.Same(t, tc.client+": the status", got.Status, 429)
				testenv.Same(t, tc.client+": the status of gRPC", got.GRPCStatus, status)
				testenv.Same(t, tc.client+": the body", string(got.Body), body)
				testenv.Same(t, tc.client+": the filter state", string(x.FilterState["wasm.sluice.rejected"]), tc.state)
				x.End()
			}
		}
	})
}

// Blocks and overrides are counted as what they are, and no limit as reached.
func TestMetricsOfOverrides(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(`{"redis": {"cluster": "redis"}, "deny_cache": {"size": 0}, "rules": [` +
			overridden(`, "penalty": {"after": 1, "within": "1m", "for": ["5h"]}`) + `]}`)
		for _, value := range []string{"free", "free", "block", "x0.2", "x0.2", "x0.2", "nonsense"} {
			r.override(overrideOfX, value, 0)
			x := i.get("/", client("x")...)
			r.settle()
			x.end()
		}
		i.flush()
		r.settle()
		got := w.stats()
		for name, want := range map[string]int64{
			"outcome.allowed.requests_total": 3, "outcome.limited.requests_total": 1, "outcome.blocked.requests_total": 3,
			"rule.a.outcome.blocked.rule_requests_total": 3, "rule.a.limit.a.over_limit_total": 1,
			"rule.a.limit.a.near_limit_total":   1,
			"overrides.event.free.checks_total": 2, "overrides.event.block.checks_total": 1,
			"overrides.event.factor.checks_total":  2,
			"overrides.event.ignored.checks_total": 0, "penalty.blocks_total": 1,
		} {
			if got[name] != want {
				t.Errorf("%s is %d, want %d", name, got[name], want)
			}
		}
	})
}

// While Redis is away, mode local goes by the override that the worker remembers, and no penalty is in
// force.
func TestOverridesWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(`{"redis": {"cluster": "redis"}, "failure": {"mode": "local", "breaker": {"failures": 1}}, "rules": [` +
			overridden(`, "penalty": {"after": 1, "within": "1m", "for": ["5h"]}`) + `]}`)
		r.override(overrideOfX, "x2", 0)
		x := i.get("/", client("x")...)
		r.settle()
		w.expect("with Redis", x.end(), result{Status: 200, Outcome: "allowed", Limit: 10, Remaining: 9, Reset: 3600})
		r.override(overrideOfX, "block", 0)
		for _, c := range r.conns {
			c.close(wasmhost.GRPCInternal)
		}
		delete(w.clusters, string(grpcService("redis")))
		for _, c := range []struct {
			user  string
			limit int
		}{{"x", 10}, {"y", 5}} {
			for n := range 12 {
				x := i.get("/", client(c.user)...)
				got := x.end()
				want := "local:allowed"
				if n >= c.limit {
					want = "local:limited:a"
				}
				what := fmt.Sprintf("%s, request %d: ", c.user, n+1)
				testenv.Same(t, what+"the outcome", got.Outcome, want)
				testenv.Same(t, what+"the limit", got.Limit, c.limit)
				testenv.Within(t, what+"the wait", got.RetryAfter, 0, 3600)
			}
		}
	})
}

// Whatever type the operator's key has, the limits decide, and one line tells of it.
func TestOverrideOfAnotherType(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(overridden("")))
		for _, c := range []string{"x", "y"} {
			key := strings.Replace(overrideOfX, "|x", "|"+c, 1)
			if err := r.client().RPush(context.Background(), key, "block").Err(); err != nil && err != redis.Nil {
				t.Fatal(err)
			}
			for n := range 3 {
				x := i.get("/", client(c)...)
				r.settle()
				w.expect(c, x.end(), result{Status: 200, Outcome: "allowed", Limit: 5, Remaining: 4 - n, Reset: 3600})
			}
			w.clock.advance(time.Hour)
		}
		w.expectLogs(`warn sluice: the override of "a|x" is not valid`, `warn sluice: the override of "a|y" is not valid`)
	})
}

// A factor multiplies limits of every kind: those of a calendar, those that come with
// the request, and slots, of which whoever is free takes none.
func TestFactorOfEveryKindOfLimit(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(`{"redis": {"cluster": "redis"}, "headers": ["draft"],
			"rules": [{"name": "a", "key": [{"header": "x-client"}], "overrides": true, "limits": [
			{"algorithm": "concurrency", "limit": 2, "name": "slots"},
			{"algorithm": "fixed_window", "limit": 100, "window": "year", "timezone": "Europe/Berlin", "name": "year"},
			{"algorithm": "gcra", "limit": {"header": "x-limit", "default": 5, "max": 50}, "window": "366d", "name": "own"}]}]}`)
		open := func(headers ...string) *exchange {
			x := i.get("/", append(client("x"), headers...)...)
			r.settle()
			return x
		}
		shown := func(x *exchange) string { return x.answer(t)["ratelimit"] }
		left := regexp.MustCompile(`;t=\d+`)
		want := func(what string, x *exchange, outcome, members string) {
			t.Helper()
			if got := left.ReplaceAllString(shown(x), ""); got != members || x.outcome() != outcome {
				t.Errorf("%s: %s, %s; want %s, %s", what, x.outcome(), got, outcome, members)
			}
		}
		first := open()
		r.override(overrideOfX, "x2", 0)
		second, third := open("x-limit", "20"), open()
		want("as configured", first, "allowed", `"slots";r=1, "year";r=99, "own";r=4`)
		want("twice, of 20", second, "allowed", `"slots";r=2, "year";r=198, "own";r=38`)
		want("twice", third, "allowed", `"slots";r=1, "year";r=197, "own";r=7`)
		r.override(overrideOfX, "free", 0)
		var free []*exchange
		for range 5 {
			free = append(free, open())
			want("free", free[len(free)-1], "allowed", "")
		}
		if n := r.client().ZCard(context.Background(), "rl:{a|x}:concurrency").Val(); n != 3 {
			t.Errorf("%d slots are held, want 3", n)
		}
		r.override(overrideOfX, "block", 0)
		want("blocked", open(), "blocked:a", `"slots";r=0, "year";r=0, "own";r=0`)
		for _, x := range append(free, first, second, third) {
			x.End()
		}
		r.settle()
		r.override(overrideOfX, "", 0)
		want("as configured again", open(), "allowed", `"slots";r=1, "year";r=96, "own";r=1`)
	})
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
