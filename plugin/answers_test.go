package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// step is one request of a scenario.
type step struct {
	after   time.Duration // since the one before
	headers []string      // names and values
	want    result
}

// scenario is a configuration and what becomes of requests for /, in order.
type scenario struct {
	name   string
	config string // the fields of the configuration
	steps  []step
}

// run decides the steps one after the other in the embedded store, whose clock
// is the test's: every number is exact.
func (s scenario) run(t *testing.T) {
	t.Run(s.name, func(t *testing.T) {
		t.Parallel()
		eachWorld(t, func(t *testing.T, w *worker) {
			i := w.load("{" + s.config + "}")
			for n, step := range s.steps {
				w.clock.advance(step.after)
				w.expect(fmt.Sprint("request ", n+1), i.get("/", step.headers...).end(), step.want)
			}
		})
	})
}

// client is the headers of a request by one client.
func client(name string) []string { return []string{"x-client", name} }

func TestCapacityIsTheBurst(t *testing.T) {
	t.Parallel()
	scenario{
		name: "gcra",
		config: `"rules": [{"name": "a", "key": [{"header": "x-client"}],
			"limits": [{"algorithm": "gcra", "limit": 1, "window": "1m", "burst": 3}]}]`,
		steps: []step{
			{headers: client("x"), want: result{Status: 200, Outcome: "allowed", Limit: 3, Remaining: 2, Reset: 60}},
			{headers: client("x"), want: result{Status: 200, Outcome: "allowed", Limit: 3, Remaining: 1, Reset: 120}},
			{headers: client("x"), want: result{Status: 200, Outcome: "allowed", Limit: 3, Remaining: 0, Reset: 180}},
			{headers: client("x"), want: result{
				Status: 429, Outcome: "limited:a", Limit: 3, Remaining: 0,
				Reset: 180, RetryAfter: 60,
			}},
			{headers: client("y"), want: result{Status: 200, Outcome: "allowed", Limit: 3, Remaining: 2, Reset: 60}},
			{
				after: 59999 * time.Millisecond, headers: client("x"),
				want: result{Status: 429, Outcome: "limited:a", Limit: 3, Remaining: 0, Reset: 121, RetryAfter: 1},
			},
			{
				after: time.Millisecond, headers: client("x"),
				want: result{Status: 200, Outcome: "allowed", Limit: 3, Remaining: 0, Reset: 180},
			},
		},
	}.run(t)
}

func TestRulesWithAndWithoutKey(t *testing.T) {
	t.Parallel()
	scenario{
		name: "without a key it is one limit for all; one whose key is absent does not apply",
		config: `"rules": [
			{"name": "all", "limits": [{"algorithm": "fixed_window", "limit": 2, "window": "1h"}]},
			{"name": "per-client", "key": [{"header": "x-client"}],
				"limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1d"}]}]`,
		steps: []step{
			{want: result{Status: 200, Outcome: "allowed", Limit: 2, Remaining: 1, Reset: 3600}},
			{headers: client("x"), want: result{Status: 200, Outcome: "allowed", Limit: 2, Remaining: 0, Reset: 3600}},
			{want: result{Status: 429, Outcome: "limited:all", Limit: 2, Remaining: 0, Reset: 3600, RetryAfter: 3600}},
			{
				after: 1800 * time.Second,
				want:  result{Status: 429, Outcome: "limited:all", Limit: 2, Remaining: 0, Reset: 1800, RetryAfter: 1800},
			},
		},
	}.run(t)
}

// Of several limits in a rule the one nearest to exhaustion is shown, and nothing
// is charged unless all allow.
func TestSeveralLimits(t *testing.T) {
	t.Parallel()
	hourly := func(r, t int) member { return member{Name: "a-1h", Q: 3, W: 3600, R: r, T: t} }
	burst := func(r, t int) member { return member{Name: "a-10s", Q: 2, W: 20, R: r, T: t} }
	scenario{
		name: "two",
		config: `"headers": ["draft", "x-ratelimit"], "rules": [{"name": "a", "limits": [
			{"algorithm": "fixed_window", "limit": 3, "window": "1h"},
			{"algorithm": "gcra", "limit": 1, "window": "10s", "burst": 2}]}]`,
		steps: []step{
			{want: result{
				Status: 200, Outcome: "allowed", Limit: 2, Remaining: 1, Reset: 10,
				Draft: []member{hourly(2, 3600), burst(1, 10)},
			}},
			{want: result{
				Status: 200, Outcome: "allowed", Limit: 2, Remaining: 0, Reset: 20,
				Draft: []member{hourly(1, 3600), burst(0, 10)},
			}},
			{want: result{
				Status: 429, Outcome: "limited:a", Limit: 2, Remaining: 0, Reset: 20, RetryAfter: 10,
				Draft: []member{hourly(1, 3600), burst(0, 10)},
			}},
			{after: 10 * time.Second, want: result{
				Status: 200, Outcome: "allowed", Limit: 3, Remaining: 0, Reset: 3590,
				Draft: []member{hourly(0, 3590), burst(0, 10)},
			}},
			{want: result{
				Status: 429, Outcome: "limited:a", Limit: 3, Remaining: 0, Reset: 3590, RetryAfter: 3590,
				Draft: []member{hourly(0, 3590), burst(0, 10)},
			}},
		},
	}.run(t)
}

// If one rule rejects, the others are given back what they charged, and show it.
func TestSeveralRules(t *testing.T) {
	t.Parallel()
	wide := func(r, t int) member { return member{Name: "wide", Q: 3, W: 30, R: r, T: t} }
	narrow := func(r, t int) member { return member{Name: "narrow", Q: 1, W: 3600, R: r, T: t} }
	allowed := func(a, b member) result {
		return result{Status: 200, Outcome: "allowed", Draft: []member{a, b}}
	}
	scenario{
		name: "two",
		config: `"headers": ["draft"], "rules": [
			{"name": "wide", "limits": [{"algorithm": "gcra", "limit": 1, "window": "10s", "burst": 3}]},
			{"name": "narrow", "key": [{"header": "x-client"}],
				"limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}]}]`,
		steps: []step{
			{headers: client("x"), want: allowed(wide(2, 20), narrow(0, 3600))},
			{headers: client("x"), want: result{
				Status: 429, Outcome: "limited:narrow", RetryAfter: 3600, Draft: []member{wide(2, 20), narrow(0, 3600)},
			}},
			{headers: client("x"), want: result{
				Status: 429, Outcome: "limited:narrow", RetryAfter: 3600, Draft: []member{wide(2, 20), narrow(0, 3600)},
			}},
			{headers: client("y"), want: allowed(wide(1, 10), narrow(0, 3600))},
			{headers: client("z"), want: allowed(wide(0, 10), narrow(0, 3600))},
			{headers: client("z"), want: result{
				Status: 429, Outcome: "limited:wide", RetryAfter: 3600, Draft: []member{wide(0, 10), narrow(0, 3600)},
			}},
			{headers: client("new"), want: result{
				Status: 429, Outcome: "limited:wide", RetryAfter: 10, Draft: []member{wide(0, 10), narrow(1, 3600)},
			}},
		},
	}.run(t)
}

func TestWhichHeaders(t *testing.T) {
	t.Parallel()
	for _, s := range []scenario{
		{
			name: "reset as Unix time",
			config: `"reset": "unix", "rules": [{"name": "a", "limits": [{"algorithm": "fixed_window", "limit": 1, "window": ` +
				`"1h"}]}]`,
			steps: []step{ // until 2026-03-01 13:00:00
				{want: result{Status: 200, Outcome: "allowed", Limit: 1, Remaining: 0, Reset: 1772370000}},
				{
					after: time.Second,
					want:  result{Status: 429, Outcome: "limited:a", Limit: 1, Remaining: 0, Reset: 1772370000, RetryAfter: 3599},
				},
			},
		},
		{
			name: "none at all",
			config: `"headers": [], "rules": [{"name": "a", "limits": [{"algorithm": "fixed_window", "limit": 1, "window": ` +
				`"1h"}]}]`,
			steps: []step{
				{want: result{Status: 200, Outcome: "allowed"}},
				{want: result{Status: 429, Outcome: "limited:a", RetryAfter: 3600}},
			},
		},
	} {
		s.run(t)
	}
}

// X-RateLimit-* stand before the draft fields, however they are configured.
func TestHeaderOrder(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"headers": ["draft", "x-ratelimit"], "rules": [{"name": "a", ` + once + `}]}`)
		x := i.get("/")
		defer x.End()
		want := wasmhost.Pairs{
			{"x-ratelimit-limit", "1"},
			{"x-ratelimit-remaining", "0"},
			{"x-ratelimit-reset", "3600"},
			{"ratelimit-policy", `"a";q=1;w=3600`},
			{"ratelimit", `"a";r=0;t=3600`},
		}
		expectHeaders(t, x.respond(), want)
	})
}

// expectHeaders compares all headers, in order.
func expectHeaders(t *testing.T, got, want wasmhost.Pairs) {
	t.Helper()
	for n := range max(len(got), len(want)) {
		var g, w [2]string
		if n < len(got) {
			g = got[n]
		}
		if n < len(want) {
			w = want[n]
		}
		if g != w {
			t.Errorf("header %d is %q, want %q", n, g, w)
		}
	}
}
