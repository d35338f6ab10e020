package main

import (
	"testing"
	"time"
)

// once is a limit that admits one request an hour.
const once = `"limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}]`

// ofReal is the RateLimit header of the rule "real".
func ofReal(remaining int) []member {
	return []member{{Name: "real", Q: 3, W: 3600, R: remaining, T: 3600}}
}

// ruleScenarios are the effects of rules on each other's requests, step by step.
var ruleScenarios = []scenario{
	{
		name: "a shadow rule never rejects, shows no headers, and is charged",
		config: `"headers": ["draft", "x-ratelimit"], "rules": [
			{"name": "trial", "mode": "shadow", "key": [{"header": "x-client"}], ` + once + `},
			{"name": "real", "key": [{"header": "x-client"}],
				"limits": [{"algorithm": "fixed_window", "limit": 3, "window": "1h"}]}]`,
		steps: []step{
			{headers: client("x"), want: result{
				Status: 200, Outcome: "allowed", Limit: 3, Remaining: 2,
				Reset: 3600, Draft: ofReal(2),
			}},
			{headers: client("x"), want: result{
				Status: 200, Outcome: "shadow:trial", Limit: 3, Remaining: 1,
				Reset: 3600, Draft: ofReal(1),
			}},
			{headers: client("x"), want: result{
				Status: 200, Outcome: "shadow:trial", Limit: 3, Remaining: 0,
				Reset: 3600, Draft: ofReal(0),
			}},
			{headers: client("x"), want: result{
				Status: 429, Outcome: "limited:real", Limit: 3, Remaining: 0, Reset: 3600, RetryAfter: 3600, Draft: ofReal(0),
			}},
			{headers: client("y"), want: result{
				Status: 200, Outcome: "allowed", Limit: 3, Remaining: 2,
				Reset: 3600, Draft: ofReal(2),
			}},
		},
	},
	{
		name:   "a shadow rule alone leaves the response alone",
		config: `"rules": [{"name": "trial", "mode": "shadow", ` + once + `}]`,
		steps: []step{
			{want: result{Status: 200, Outcome: "allowed"}},
			{want: result{Status: 200, Outcome: "shadow:trial"}},
		},
	},
	{
		name: "what a shadow rule admitted it gets back when another rule rejects",
		config: `"rules": [
			{"name": "trial", "mode": "shadow", "limits": [{"algorithm": "fixed_window", "limit": 2, "window": "1h"}]},
			{"name": "real", "key": [{"header": "x-client"}], ` + once + `}]`,
		steps: []step{
			{headers: client("x"), want: result{Status: 200, Outcome: "allowed", Limit: 1, Remaining: 0, Reset: 3600}},
			{headers: client("x"), want: result{
				Status: 429, Outcome: "limited:real", Limit: 1, Remaining: 0, Reset: 3600,
				RetryAfter: 3600,
			}},
			{headers: client("x"), want: result{
				Status: 429, Outcome: "limited:real", Limit: 1, Remaining: 0, Reset: 3600,
				RetryAfter: 3600,
			}},
			{headers: client("y"), want: result{Status: 200, Outcome: "allowed", Limit: 1, Remaining: 0, Reset: 3600}},
			{headers: client("z"), want: result{Status: 200, Outcome: "shadow:trial", Limit: 1, Remaining: 0, Reset: 3600}},
		},
	},
	{
		name:   "a rule that is off does nothing",
		config: `"rules": [{"name": "a", "mode": "off", ` + once + `}]`,
		steps: []step{
			{want: result{Status: 200, Outcome: "none"}},
			{want: result{Status: 200, Outcome: "none"}},
		},
	},
	{
		name: "an exempt rule ends the list: what stands before it applies",
		config: `"rules": [
			{"name": "first", "match": {"headers": {"x-first": {"present": true}}}, ` + once + `},
			{"name": "free", "match": {"headers": {"x-client": "friend"}}, "exempt": true},
			{"name": "last", "key": [{"header": "x-client"}], ` + once + `}]`,
		steps: []step{
			{headers: client("friend"), want: result{Status: 200, Outcome: "exempt:free"}},
			{headers: client("friend"), want: result{Status: 200, Outcome: "exempt:free"}},
			{
				headers: []string{"x-client", "friend", "x-first", ""},
				want:    result{Status: 200, Outcome: "allowed", Limit: 1, Remaining: 0, Reset: 3600},
			},
			{
				headers: []string{"x-client", "friend", "x-first", ""},
				want:    result{Status: 429, Outcome: "limited:first", Limit: 1, Remaining: 0, Reset: 3600, RetryAfter: 3600},
			},
			{headers: client("x"), want: result{Status: 200, Outcome: "allowed", Limit: 1, Remaining: 0, Reset: 3600}},
			{headers: client("x"), want: result{
				Status: 429, Outcome: "limited:last", Limit: 1, Remaining: 0, Reset: 3600,
				RetryAfter: 3600,
			}},
			{want: result{Status: 200, Outcome: "none"}},
		},
	},
	{
		name: "tiers: one is unlimited, an unknown one is the default",
		config: `"rules": [{"name": "a", "key": [{"header": "x-client"}],
			"limits_by": {"source": {"header": "x-plan"}, "default": "free",
			"values": {"free": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}],
				"pro": [{"algorithm": "fixed_window", "limit": 2, "window": "1m"}], "gold": "unlimited"}}}]`,
		steps: []step{
			{headers: []string{"x-client", "x", "x-plan", "gold"}, want: result{Status: 200, Outcome: "allowed"}},
			{headers: []string{"x-client", "x", "x-plan", "gold"}, want: result{Status: 200, Outcome: "allowed"}},
			{
				headers: []string{"x-client", "x", "x-plan", "pro"},
				want:    result{Status: 200, Outcome: "allowed", Limit: 2, Remaining: 1, Reset: 60},
			},
			{
				headers: []string{"x-client", "x"},
				want:    result{Status: 200, Outcome: "allowed", Limit: 1, Remaining: 0, Reset: 3600},
			},
			{
				headers: []string{"x-client", "x", "x-plan", "lead"},
				want:    result{Status: 429, Outcome: "limited:a", Limit: 1, Remaining: 0, Reset: 3600, RetryAfter: 3600},
			},
			{
				headers: []string{"x-client", "x", "x-plan", "pro"},
				want:    result{Status: 200, Outcome: "allowed", Limit: 2, Remaining: 0, Reset: 60},
			},
		},
	},
	{
		name: "costs",
		config: `"rules": [{"name": "a", "key": [{"header": "x-client"}],
			"cost": {"header": "x-cost", "default": 2, "max": 100},
			"limits": [{"algorithm": "gcra", "limit": 1, "window": "1s", "burst": 10}]}]`,
		steps: []step{
			{
				headers: []string{"x-client", "x", "x-cost", "3"},
				want:    result{Status: 200, Outcome: "allowed", Limit: 10, Remaining: 7, Reset: 3},
			},
			{headers: client("x"), want: result{Status: 200, Outcome: "allowed", Limit: 10, Remaining: 5, Reset: 5}},
			{
				headers: []string{"x-client", "x", "x-cost", "many"},
				want:    result{Status: 200, Outcome: "allowed", Limit: 10, Remaining: 3, Reset: 7},
			},
			{
				headers: []string{"x-client", "x", "x-cost", "-1"},
				want:    result{Status: 200, Outcome: "allowed", Limit: 10, Remaining: 1, Reset: 9},
			},
			{
				headers: []string{"x-client", "x", "x-cost", "0"},
				want:    result{Status: 200, Outcome: "allowed", Limit: 10, Remaining: 1, Reset: 9},
			},
			{
				headers: []string{"x-client", "x", "x-cost", "4"},
				want:    result{Status: 429, Outcome: "limited:a", Limit: 10, Remaining: 1, Reset: 9, RetryAfter: 3},
			},
			{
				headers: []string{"x-client", "x", "x-cost", "1"},
				want:    result{Status: 200, Outcome: "allowed", Limit: 10, Remaining: 0, Reset: 10},
			},
			{
				headers: []string{"x-client", "x", "x-cost", "0"},
				want:    result{Status: 200, Outcome: "allowed", Limit: 10, Remaining: 0, Reset: 10},
			},
			{
				headers: []string{"x-client", "x", "x-cost", "99999999999999999999"},
				want:    result{Status: 429, Outcome: "limited:a", Limit: 10, Remaining: 0, Reset: 10},
			},
			{
				headers: []string{"x-client", "y", "x-cost", "11"},
				want:    result{Status: 429, Outcome: "limited:a", Limit: 10, Remaining: 10, Reset: 0},
			},
			{
				headers: []string{"x-client", "y", "x-cost", "10"},
				want:    result{Status: 200, Outcome: "allowed", Limit: 10, Remaining: 0, Reset: 10},
			},
			{
				after: 10 * time.Second, headers: []string{"x-client", "y", "x-cost", "0"},
				want: result{Status: 200, Outcome: "allowed", Limit: 10, Remaining: 10, Reset: 0},
			},
		},
	},
}

func TestRules(t *testing.T) {
	t.Parallel()
	for _, s := range ruleScenarios {
		s.run(t)
	}
}
