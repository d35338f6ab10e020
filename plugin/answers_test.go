package main

import (
	"fmt"
	"testing"
	"time"
)

// step is one request of a scenario.
type step struct {
	after   time.Duration // since the one before
	headers []string      // names and values
	want    string        // see exchange.end
}

// scenario is a configuration and what becomes of requests for /.
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

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, s := range []scenario{
		{
			name: "the capacity is the burst",
			config: `"rules": [{"name": "a", "key": [{"header": "x-client"}],
				"limits": [{"algorithm": "gcra", "limit": 1, "window": "1m", "burst": 3}]}]`,
			steps: []step{
				{0, client("x"), "200 allowed" + standard(3, 2, "60")},
				{0, client("x"), "200 allowed" + standard(3, 1, "120")},
				{0, client("x"), "200 allowed" + standard(3, 0, "180")},
				{0, client("x"), "429 limited:a" + standard(3, 0, "180") + problem("60")},
				{0, client("y"), "200 allowed" + standard(3, 2, "60")},
				{59999 * time.Millisecond, client("x"), "429 limited:a" + standard(3, 0, "121") + problem("1")},
				{time.Millisecond, client("x"), "200 allowed" + standard(3, 0, "180")},
			},
		},
		{
			name: "a rule without a key is one limit for all, one whose key is absent does not apply",
			config: `"rules": [
				{"name": "all", "limits": [{"algorithm": "fixed_window", "limit": 2, "window": "1h"}]},
				{"name": "per-client", "key": [{"header": "x-client"}], "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1d"}]}]`,
			steps: []step{
				{0, nil, "200 allowed" + standard(2, 1, "3600")},
				{0, client("x"), "200 allowed" + standard(2, 0, "3600")},
				{0, nil, "429 limited:all" + standard(2, 0, "3600") + problem("3600")},
				{1800 * time.Second, nil, "429 limited:all" + standard(2, 0, "1800") + problem("1800")},
			},
		},
		{
			name: "several limits in a rule: the nearest to exhaustion is shown, nothing is charged unless all allow",
			config: `"headers": ["draft", "x-ratelimit"], "rules": [{"name": "a", "limits": [
				{"algorithm": "fixed_window", "limit": 3, "window": "1h"},
				{"algorithm": "gcra", "limit": 1, "window": "10s", "burst": 2}]}]`,
			steps: []step{
				{0, nil, "200 allowed" + standard(2, 1, "10") + twoLimits + "[ratelimit: \"a-1h\";r=2;t=3600, \"a-10s\";r=1;t=10]"},
				{0, nil, "200 allowed" + standard(2, 0, "20") + twoLimits + "[ratelimit: \"a-1h\";r=1;t=3600, \"a-10s\";r=0;t=20]"},
				{0, nil, "429 limited:a" + standard(2, 0, "20") + twoLimits + "[ratelimit: \"a-1h\";r=1;t=3600, \"a-10s\";r=0;t=20]" + problem("10")},
				{10 * time.Second, nil, "200 allowed" + standard(3, 0, "3590") + twoLimits + "[ratelimit: \"a-1h\";r=0;t=3590, \"a-10s\";r=0;t=20]"},
				{0, nil, "429 limited:a" + standard(3, 0, "3590") + twoLimits + "[ratelimit: \"a-1h\";r=0;t=3590, \"a-10s\";r=0;t=20]" + problem("3590")},
			},
		},
		{
			name: "one rule rejects: the other is given back what it charged, and shows it",
			config: `"headers": ["draft"], "rules": [
				{"name": "wide", "limits": [{"algorithm": "gcra", "limit": 1, "window": "10s", "burst": 3}]},
				{"name": "narrow", "key": [{"header": "x-client"}], "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}]}]`,
			steps: []step{
				{0, client("x"), "200 allowed" + twoRules + "[ratelimit: \"wide\";r=2;t=10, \"narrow\";r=0;t=3600]"},
				{0, client("x"), "429 limited:narrow" + twoRules + "[ratelimit: \"wide\";r=2;t=10, \"narrow\";r=0;t=3600]" + problem("3600")},
				{0, client("x"), "429 limited:narrow" + twoRules + "[ratelimit: \"wide\";r=2;t=10, \"narrow\";r=0;t=3600]" + problem("3600")},
				{0, client("y"), "200 allowed" + twoRules + "[ratelimit: \"wide\";r=1;t=20, \"narrow\";r=0;t=3600]"},
				{0, client("z"), "200 allowed" + twoRules + "[ratelimit: \"wide\";r=0;t=30, \"narrow\";r=0;t=3600]"},
				{0, client("z"), "429 limited:wide" + twoRules + "[ratelimit: \"wide\";r=0;t=30, \"narrow\";r=0;t=3600]" + problem("3600")},
				{0, client("new"), "429 limited:wide" + twoRules + "[ratelimit: \"wide\";r=0;t=30, \"narrow\";r=1;t=0]" + problem("10")},
			},
		},
		{
			name:   "reset as Unix time",
			config: `"reset": "unix", "rules": [{"name": "a", "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}]}]`,
			steps: []step{
				{0, nil, "200 allowed" + standard(1, 0, "1772370000")}, // 2026-03-01 13:00:00
				{time.Second, nil, "429 limited:a" + standard(1, 0, "1772370000") + problem("3599")},
			},
		},
		{
			name:   "no headers at all",
			config: `"headers": [], "rules": [{"name": "a", "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}]}]`,
			steps: []step{
				{0, nil, "200 allowed"},
				{0, nil, "429 limited:a" + problem("3600")},
			},
		},
	} {
		s.run(t)
	}
}

// The policies of two scenarios.
const (
	twoLimits = ` [ratelimit-policy: "a-1h";q=3;w=3600, "a-10s";q=2;w=20] `
	twoRules  = ` [ratelimit-policy: "wide";q=3;w=30, "narrow";q=1;w=3600] `
)
