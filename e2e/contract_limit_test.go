package e2e

import (
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
)

// rejected is a step that a rule rejects, telling when to come again; "" wants
// no Retry-After.
func rejected(retryAfter, path string, headers ...string) step {
	return step{
		path: path, headers: headers, status: http.StatusTooManyRequests, state: "limited:@",
		want: map[string]string{"retry-after": retryAfter},
	}
}

// with adds wanted headers to a step, as pairs of name and value.
func (s step) with(pairs ...string) step {
	want := map[string]string{}
	for name, value := range s.want {
		want[name] = value
	}
	for i := 0; i < len(pairs); i += 2 {
		want[pairs[i]] = pairs[i+1]
	}
	s.want = want
	return s
}

// limiting is a scenario of one rule at its own path.
func limiting(name, members string, steps ...step) scenario {
	return scenario{name: name, rules: `{"name": "@", "match": {"path": {"prefix": "/@"}}, ` + members + `}`, steps: steps}
}

const bothHeaders = `"headers": ["x-ratelimit", "draft"], `

// TestAlgorithms: what the headers of each say, at one instant. All windows are
// so long that the milliseconds between two steps do not show.
func TestAlgorithms(t *testing.T) {
	t.Parallel()
	runScenarios(t, bothHeaders, envoytest.Options{}, []scenario{
		limiting("fixed", `"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 2, "window": "1h"}]`,
			left(1, "").with("x-ratelimit-limit", "2", "x-ratelimit-reset", "3600", "retry-after", "",
				"ratelimit-policy", `"@";q=2;w=3600`, "ratelimit", `"@";r=1;t=3600`),
			left(0, "").with("x-ratelimit-reset", "3600"),
			rejected("3600", "").with("x-ratelimit-remaining", "0", "x-ratelimit-reset", "3600", "ratelimit", `"@";r=0;t=3600`)),
		limiting("clock", `"limits": [{"algorithm": "fixed_window", "anchor": "clock", "limit": 1, "window": "366d"}]`,
			left(0, ""), step{status: http.StatusTooManyRequests, state: "limited:@"}),
		limiting("log", `"limits": [{"algorithm": "sliding_window_log", "limit": 2, "window": "1h"}]`,
			left(1, "").with("x-ratelimit-limit", "2", "x-ratelimit-reset", "3600", "ratelimit-policy", `"@";q=2;w=3600`),
			left(0, ""), rejected("3600", "").with("x-ratelimit-reset", "3600")),
		limiting("counter", `"limits": [{"algorithm": "sliding_window_counter", "limit": 2, "window": "366d"}]`,
			left(1, "").with("x-ratelimit-limit", "2"), left(0, ""), step{status: http.StatusTooManyRequests}),
		limiting("quarters", `"limits": [{"algorithm": "sliding_window_counter", "sub_windows": 4, "limit": 2, "window": "366d"}]`,
			left(1, ""), left(0, ""), step{status: http.StatusTooManyRequests}),
		limiting("tokens", `"limits": [{"algorithm": "token_bucket", "limit": 10, "window": "1h"}]`,
			left(9, "").with("x-ratelimit-limit", "10", "x-ratelimit-reset", "360", "ratelimit-policy", `"@";q=10;w=3600`),
			left(8, "").with("x-ratelimit-reset", "720")),
		limiting("smalltokens", `"limits": [{"algorithm": "token_bucket", "limit": 10, "window": "1h", "burst": 2}]`,
			left(1, "").with("x-ratelimit-limit", "2", "x-ratelimit-reset", "360", "ratelimit-policy", `"@";q=2;w=720`),
			left(0, "").with("x-ratelimit-reset", "720"), rejected("360", "").with("x-ratelimit-reset", "720")),
		limiting("leaky", `"limits": [{"algorithm": "leaky_bucket", "limit": 10, "window": "1h", "burst": 2}]`,
			left(1, "").with("x-ratelimit-limit", "2", "x-ratelimit-reset", "360", "ratelimit-policy", `"@";q=2;w=720`),
			left(0, "").with("x-ratelimit-reset", "720"), rejected("360", "").with("x-ratelimit-reset", "720")),
		limiting("gcra", `"limits": [{"algorithm": "gcra", "limit": 10, "window": "1h", "burst": 2}]`,
			left(1, "").with("x-ratelimit-limit", "2", "x-ratelimit-reset", "360", "ratelimit-policy", `"@";q=2;w=720`),
			left(0, "").with("x-ratelimit-reset", "720"), rejected("360", "").with("x-ratelimit-reset", "720")),
		limiting("largeburst", `"limits": [{"algorithm": "gcra", "limit": 1, "window": "1h", "burst": 3}]`,
			left(2, "").with("x-ratelimit-limit", "3", "x-ratelimit-reset", "3600", "ratelimit-policy", `"@";q=3;w=10800`)),
		limiting("short", `"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1000000000, "window": "1ms"}]`,
			step{}.with("ratelimit-policy", `"@";q=1000000000;w=1`, "x-ratelimit-reset", "1")),
		limiting("rounded", `"limits": [{"algorithm": "gcra", "limit": 1000000, "window": "366d", "burst": 1}]`,
			left(0, "").with("x-ratelimit-reset", "32", "ratelimit-policy", `"@";q=1;w=32`), rejected("32", "")),
		limiting("atleastone", `"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "999ms"}]`,
			left(0, ""), rejected("1", "").with("x-ratelimit-reset", "1")),
		limiting("spelled", `"limits": [
			{"algorithm": "gcra", "limit": 3, "window": "90s"}, {"algorithm": "gcra", "limit": 9, "window": "60m"}, {"algorithm": "gcra", "limit": 9, "window": "1h1m"}]`,
			left(2, "").with("ratelimit-policy", `"@-90s";q=3;w=90, "@-60m";q=9;w=3600, "@-1h1m";q=9;w=3660`)),
		limiting("nearest", `"limits": [
			{"algorithm": "gcra", "limit": 100, "window": "1h", "burst": 3, "name": "@-burst"},
			{"algorithm": "token_bucket", "limit": 2, "window": "1d"}]`,
			left(1, "").with("x-ratelimit-limit", "2", "ratelimit-policy", `"@-burst";q=3;w=108, "@-1d";q=2;w=86400`,
				"ratelimit", `"@-burst";r=2;t=36, "@-1d";r=1;t=43200`),
			left(0, ""),
			rejected("43200", "").with("x-ratelimit-limit", "2", "ratelimit", `"@-burst";r=1;t=72, "@-1d";r=0;t=86400`)),
		{
			name: "tworules",
			rules: `{"name": "@", "match": {"path": {"prefix": "/@"}}, "limits": [{"algorithm": "gcra", "limit": 1, "window": "1h"}]},
				{"name": "@.other", "match": {"path": {"prefix": "/@"}}, "limits": [{"algorithm": "token_bucket", "limit": 5, "window": "1h"}]}`,
			steps: []step{
				left(0, "").with("x-ratelimit-limit", "1", "ratelimit", `"@";r=0;t=3600, "@.other";r=4;t=720`),
				rejected("3600", "").with("x-ratelimit-limit", "1", "ratelimit", `"@";r=0;t=3600, "@.other";r=4;t=720`),
				rejected("3600", "").with("ratelimit", `"@";r=0;t=3600, "@.other";r=4;t=720`),
			},
		},
	})
}

func TestCosts(t *testing.T) {
	t.Parallel()
	const limits = `"limits": [{"algorithm": "token_bucket", "limit": 10, "window": "1h"}]`
	runScenarios(t, "", envoytest.Options{}, []scenario{
		limiting("constant", `"cost": 4, `+limits, left(6, ""), left(2, ""), rejected("720", "").with("x-ratelimit-remaining", "2")),
		limiting("zero", `"cost": 0, `+limits, left(10, "").with("x-ratelimit-reset", "0"), left(10, "")),
		limiting("header", `"cost": {"header": "x-cost", "default": 2, "max": 5}, `+limits,
			left(8, ""), left(8, "", "x-cost: 0"), left(7, "", "x-cost: 1"), left(5, "", "x-cost: -1"), left(3, "", "x-cost: 1.5"),
			left(1, "", "x-cost: many"), rejected("1440", "", "x-cost: 99999999999999999999999999"), left(1, "", "x-cost: 0"), left(0, "", "x-cost: 001")),
		limiting("capped", `"cost": {"header": "x-cost", "default": 1, "max": 5}, `+limits, left(5, "", "x-cost: 6"), left(0, "", "x-cost: 5")),
		limiting("above", `"cost": {"header": "x-cost", "default": 1, "max": 100}, `+limits,
			rejected("", "", "x-cost: 11").with("x-ratelimit-remaining", "10"), rejected("", "", "x-cost: 100"), left(0, "", "x-cost: 10"),
			rejected("3600", "", "x-cost: 10"), rejected("", "", "x-cost: 11")),
		limiting("large", `"cost": 1000000, "limits": [{"algorithm": "sliding_window_counter", "limit": 2500000, "window": "366d"}]`,
			left(1_500_000, ""), left(500_000, ""), step{status: http.StatusTooManyRequests}.with("x-ratelimit-remaining", "500000")),
		limiting("biglog", `"cost": 500, "limits": [{"algorithm": "sliding_window_log", "limit": 1200, "window": "1h"}]`,
			left(700, ""), left(200, ""), rejected("3600", "")),
	})
}

func TestTiers(t *testing.T) {
	t.Parallel()
	tiers := func(source, rest string) string {
		return `"key": [{"header": "x-plan", "default": "-"}], "limits_by": {"source": ` + source + `, "values": {
			"free": [{"algorithm": "gcra", "limit": 2, "window": "1h"}], "none": "unlimited",
			"pro": [{"algorithm": "gcra", "limit": 20, "window": "1h"}, {"algorithm": "token_bucket", "limit": 50, "window": "1d"}]}` + rest + `}`
	}
	limit := func(n string) []string { return []string{"x-ratelimit-limit", n} }
	runScenarios(t, bothHeaders, envoytest.Options{}, []scenario{
		limiting("default", tiers(`{"header": "x-plan"}`, `, "default": "free"`),
			step{}.with(limit("2")...).with("ratelimit-policy", `"@";q=2;w=3600`),
			step{headers: []string{"x-plan: pro"}}.with(limit("20")...).with("ratelimit-policy", `"@-1h";q=20;w=3600, "@-1d";q=50;w=86400`),
			step{headers: []string{"x-plan: none"}, state: "allowed"}.with(limit("")...),
			step{headers: []string{"x-plan: unheard-of"}}.with(limit("2")...),
			left(0, ""), rejected("1800", "")),
		limiting("nodefault", tiers(`{"header": "x-plan"}`, ``), passes(""), passes("", "x-plan: unheard-of"),
			step{headers: []string{"x-plan: free"}, state: "allowed"}.with(limit("2")...)),
		limiting("sourcedefault", tiers(`{"header": "x-plan", "default": "pro"}`, `, "default": "free"`),
			step{}.with(limit("20")...), step{headers: []string{"x-plan: unheard-of"}}.with(limit("2")...)),
	})
}
