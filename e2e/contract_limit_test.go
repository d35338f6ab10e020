package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
)

// limiting is a scenario of one rule at its own path.
func limiting(name, members string, steps ...step) scenario {
	return scenario{
		name: name, steps: steps,
		rules: fmt.Sprintf(`{"name": %q, "match": {"path": {"prefix": "/%s"}}, %s}`, name, name, members),
	}
}

const bothHeaders = `"headers": ["x-ratelimit", "draft"], `

// TestWindows: what the headers say at one instant. All windows are so long that
// the milliseconds between two steps do not show.
func TestWindows(t *testing.T) {
	t.Parallel()
	runScenarios(t, bothHeaders, envoytest.Options{}, []scenario{
		limiting("fixed", `"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 2, "window": "1h"}]`,
			step{want: want{
				Outcome: "allowed", Limit: "2", Remaining: "1", Reset: "3600", RetryAfter: missing,
				Policy: `"fixed";q=2;w=3600`, RateLimit: `"fixed";r=1;t=3600`,
			}},
			step{want: want{Outcome: "allowed", Remaining: "0", Reset: "3600"}},
			step{want: want{
				Status: http.StatusTooManyRequests, Outcome: "limited:fixed", Remaining: "0", Reset: "3600", RetryAfter: "3600",
				RateLimit: `"fixed";r=0;t=3600`,
			}}),
		limiting("clock", `"limits": [{"algorithm": "fixed_window", "anchor": "clock", "limit": 1, "window": "366d"}]`,
			step{want: want{Outcome: "allowed", Remaining: "0"}},
			step{want: want{Status: http.StatusTooManyRequests, Outcome: "limited:clock"}}),
		limiting("log", `"limits": [{"algorithm": "sliding_window_log", "limit": 2, "window": "1h"}]`,
			step{want: want{Outcome: "allowed", Limit: "2", Remaining: "1", Reset: "3600", Policy: `"log";q=2;w=3600`}},
			step{want: want{Outcome: "allowed", Remaining: "0"}},
			step{want: want{Status: http.StatusTooManyRequests, Outcome: "limited:log", Reset: "3600", RetryAfter: "3600"}}),
		limiting("counter", `"limits": [{"algorithm": "sliding_window_counter", "limit": 2, "window": "366d"}]`,
			step{want: want{Outcome: "allowed", Limit: "2", Remaining: "1"}},
			step{want: want{Outcome: "allowed", Remaining: "0"}},
			step{want: want{Status: http.StatusTooManyRequests}}),
		limiting("quarters", `"limits": [{"algorithm": "sliding_window_counter", "sub_windows": 4, "limit": 2, `+
			`"window": "366d"}]`,
			step{want: want{Outcome: "allowed", Remaining: "1"}},
			step{want: want{Outcome: "allowed", Remaining: "0"}},
			step{want: want{Status: http.StatusTooManyRequests}}),
		limiting("short", `"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1000000000, `+
			`"window": "1ms"}]`,
			step{want: want{Reset: "1", Policy: `"short";q=1000000000;w=1`}}),
		limiting("atleastone", `"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, `+
			`"window": "999ms"}]`,
			step{want: want{Outcome: "allowed", Remaining: "0"}},
			step{want: want{Status: http.StatusTooManyRequests, Outcome: "limited:atleastone", Reset: "1", RetryAfter: "1"}}),
	})
}

// TestBuckets: what the headers say at one instant.
func TestBuckets(t *testing.T) {
	t.Parallel()
	scenarios := []scenario{
		limiting("tokens", `"limits": [{"algorithm": "token_bucket", "limit": 10, "window": "1h"}]`,
			step{want: want{Outcome: "allowed", Limit: "10", Remaining: "9", Reset: "360", Policy: `"tokens";q=10;w=3600`}},
			step{want: want{Outcome: "allowed", Remaining: "8", Reset: "720"}}),
		limiting("largeburst", `"limits": [{"algorithm": "gcra", "limit": 1, "window": "1h", "burst": 3}]`,
			step{want: want{Outcome: "allowed", Limit: "3", Remaining: "2", Reset: "3600", Policy: `"largeburst";q=3;w=10800`}}),
		limiting("rounded", `"limits": [{"algorithm": "gcra", "limit": 1000000, "window": "366d", "burst": 1}]`,
			step{want: want{Outcome: "allowed", Remaining: "0", Reset: "32", Policy: `"rounded";q=1;w=32`}},
			step{want: want{Status: http.StatusTooManyRequests, Outcome: "limited:rounded", RetryAfter: "32"}}),
	}
	for _, algorithm := range []string{"token_bucket", "leaky_bucket", "gcra"} {
		limits := fmt.Sprintf(`"limits": [{"algorithm": %q, "limit": 10, "window": "1h", "burst": 2}]`, algorithm)
		scenarios = append(scenarios, limiting(algorithm, limits,
			step{want: want{
				Outcome: "allowed", Limit: "2", Remaining: "1", Reset: "360",
				Policy: fmt.Sprintf(`%q;q=2;w=720`, algorithm),
			}},
			step{want: want{Outcome: "allowed", Remaining: "0", Reset: "720"}},
			step{want: want{
				Status: http.StatusTooManyRequests, Outcome: "limited:" + algorithm, Reset: "720",
				RetryAfter: "360",
			}}))
	}
	runScenarios(t, bothHeaders, envoytest.Options{}, scenarios)
}

// TestSeveralLimits: of one rule, and of two.
func TestSeveralLimits(t *testing.T) {
	t.Parallel()
	const bothUsed = `"rules";r=0;t=3600, "rules.other";r=4;t=2880`
	runScenarios(t, bothHeaders, envoytest.Options{}, []scenario{
		limiting("spelled", `"limits": [
			{"algorithm": "gcra", "limit": 3, "window": "90s"}, {"algorithm": "gcra", "limit": 9, "window": "60m"},
				{"algorithm": "gcra", "limit": 9, "window": "1h1m"}]`,
			step{want: want{
				Outcome: "allowed", Remaining: "2",
				Policy: `"spelled-90s";q=3;w=90, "spelled-60m";q=9;w=3600, "spelled-1h1m";q=9;w=3660`,
			}}),
		limiting("nearest", `"limits": [
			{"algorithm": "gcra", "limit": 100, "window": "1h", "burst": 3, "name": "nearest-burst"},
			{"algorithm": "token_bucket", "limit": 2, "window": "1d"}]`,
			step{want: want{
				Outcome: "allowed", Limit: "2", Remaining: "1",
				Policy:    `"nearest-burst";q=3;w=108, "nearest-1d";q=2;w=86400`,
				RateLimit: `"nearest-burst";r=2;t=72, "nearest-1d";r=1;t=43200`,
			}},
			step{want: want{Outcome: "allowed", Remaining: "0"}},
			step{want: want{
				Status: http.StatusTooManyRequests, Outcome: "limited:nearest", Limit: "2", RetryAfter: "43200",
				RateLimit: `"nearest-burst";r=1;t=36, "nearest-1d";r=0;t=43200`,
			}}),
		{
			name: "rules",
			rules: `{"name": "rules", "match": {"path": {"prefix": "/rules"}},
				"limits": [{"algorithm": "gcra", "limit": 1, "window": "1h"}]},
				{"name": "rules.other", "match": {"path": {"prefix": "/rules"}},
					"limits": [{"algorithm": "token_bucket", "limit": 5, "window": "1h"}]}`,
			steps: []step{
				{want: want{Outcome: "allowed", Limit: "1", Remaining: "0", RateLimit: bothUsed}},
				{want: want{
					Status: http.StatusTooManyRequests, Outcome: "limited:rules", Limit: "1", RetryAfter: "3600",
					RateLimit: bothUsed,
				}},
				{want: want{Status: http.StatusTooManyRequests, Outcome: "limited:rules", RetryAfter: "3600", RateLimit: bothUsed}},
			},
		},
	})
}

// costing is a step with a header x-cost.
func costing(cost string, w want) step { return step{request: with("x-cost: " + cost), want: w} }

func TestCosts(t *testing.T) {
	t.Parallel()
	const limits = `"limits": [{"algorithm": "token_bucket", "limit": 10, "window": "1h"}]`
	runScenarios(t, "", envoytest.Options{}, []scenario{
		limiting("constant", `"cost": 4, `+limits,
			step{want: want{Outcome: "allowed", Remaining: "6"}},
			step{want: want{Outcome: "allowed", Remaining: "2"}},
			step{want: want{
				Status: http.StatusTooManyRequests, Outcome: "limited:constant", Remaining: "2",
				RetryAfter: "720",
			}}),
		limiting("zero", `"cost": 0, `+limits,
			step{want: want{Outcome: "allowed", Remaining: "10", Reset: "0"}},
			step{want: want{Outcome: "allowed", Remaining: "10"}}),
		limiting("header", `"cost": {"header": "x-cost", "default": 2, "max": 5}, `+limits,
			step{want: want{Outcome: "allowed", Remaining: "8"}},
			costing("0", want{Outcome: "allowed", Remaining: "8"}),
			costing("1", want{Outcome: "allowed", Remaining: "7"}),
			costing("-1", want{Outcome: "allowed", Remaining: "5"}),
			costing("1.5", want{Outcome: "allowed", Remaining: "3"}),
			costing("many", want{Outcome: "allowed", Remaining: "1"}),
			costing("99999999999999999999999999",
				want{Status: http.StatusTooManyRequests, Outcome: "limited:header", RetryAfter: "1440"}),
			costing("0", want{Outcome: "allowed", Remaining: "1"}),
			costing("001", want{Outcome: "allowed", Remaining: "0"})),
		limiting("capped", `"cost": {"header": "x-cost", "default": 1, "max": 5}, `+limits,
			costing("6", want{Outcome: "allowed", Remaining: "5"}),
			costing("5", want{Outcome: "allowed", Remaining: "0"})),
		limiting("above", `"cost": {"header": "x-cost", "default": 1, "max": 100}, `+limits,
			costing("11", want{
				Status: http.StatusTooManyRequests, Outcome: "limited:above", Remaining: "10",
				RetryAfter: missing,
			}),
			costing("100", want{Status: http.StatusTooManyRequests, Outcome: "limited:above", RetryAfter: missing}),
			costing("10", want{Outcome: "allowed", Remaining: "0"}),
			costing("10", want{Status: http.StatusTooManyRequests, Outcome: "limited:above", RetryAfter: "3600"}),
			costing("11", want{Status: http.StatusTooManyRequests, Outcome: "limited:above", RetryAfter: missing})),
		limiting("large", `"cost": 1000000, "limits": [{"algorithm": "sliding_window_counter", "limit": 2500000, "window": `+
			`"366d"}]`,
			step{want: want{Outcome: "allowed", Remaining: "1500000"}},
			step{want: want{Outcome: "allowed", Remaining: "500000"}},
			step{want: want{Status: http.StatusTooManyRequests, Remaining: "500000"}}),
		limiting("biglog", `"cost": 500, "limits": [{"algorithm": "sliding_window_log", "limit": 1200, "window": "1h"}]`,
			step{want: want{Outcome: "allowed", Remaining: "700"}},
			step{want: want{Outcome: "allowed", Remaining: "200"}},
			step{want: want{Status: http.StatusTooManyRequests, Outcome: "limited:biglog", RetryAfter: "3600"}}),
	})
}

// planned is a step with a header x-plan.
func planned(plan string, w want) step { return step{request: with("x-plan: " + plan), want: w} }

func TestTiers(t *testing.T) {
	t.Parallel()
	tiers := func(source, rest string) string {
		return `"key": [{"header": "x-plan", "default": "-"}], "limits_by": {"source": ` + source + `, "values": {
			"free": [{"algorithm": "gcra", "limit": 2, "window": "1h"}], "none": "unlimited",
			"pro": [{"algorithm": "gcra", "limit": 20, "window": "1h"},
				{"algorithm": "token_bucket", "limit": 50, "window": "1d"}]}` + rest + `}`
	}
	runScenarios(t, bothHeaders, envoytest.Options{}, []scenario{
		limiting("default", tiers(`{"header": "x-plan"}`, `, "default": "free"`),
			step{want: want{Limit: "2", Policy: `"default";q=2;w=3600`}},
			planned("pro", want{Limit: "20", Policy: `"default-1h";q=20;w=3600, "default-1d";q=50;w=86400`}),
			planned("none", want{Outcome: "allowed", Limit: missing}),
			planned("unheard-of", want{Limit: "2"}),
			step{want: want{Outcome: "allowed", Remaining: "0"}},
			step{want: want{Status: http.StatusTooManyRequests, Outcome: "limited:default", RetryAfter: "1800"}}),
		limiting("nodefault", tiers(`{"header": "x-plan"}`, ``),
			step{want: want{Outcome: "none", Limit: missing}},
			planned("unheard-of", want{Outcome: "none", Limit: missing}),
			planned("free", want{Outcome: "allowed", Limit: "2"})),
		limiting("sourcedefault", tiers(`{"header": "x-plan", "default": "pro"}`, `, "default": "free"`),
			step{want: want{Limit: "20"}},
			planned("unheard-of", want{Limit: "2"})),
	})
}
