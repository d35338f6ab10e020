package main

import (
	"testing"
	"time"
)

// once is a limit that admits one request an hour.
const once = `"limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}]`

func TestRules(t *testing.T) {
	t.Parallel()
	for _, s := range []scenario{
		{
			name: "a shadow rule never rejects, shows no headers, and is charged",
			config: `"headers": ["draft", "x-ratelimit"], "rules": [
				{"name": "trial", "mode": "shadow", "key": [{"header": "x-client"}], ` + once + `},
				{"name": "real", "key": [{"header": "x-client"}], "limits": [{"algorithm": "fixed_window", "limit": 3, "window": "1h"}]}]`,
			steps: []step{
				{0, client("x"), "200 allowed" + standard(3, 2, "3600") + ` [ratelimit-policy: "real";q=3;w=3600] [ratelimit: "real";r=2;t=3600]`},
				{0, client("x"), "200 shadow:trial" + standard(3, 1, "3600") + ` [ratelimit-policy: "real";q=3;w=3600] [ratelimit: "real";r=1;t=3600]`},
				{0, client("x"), "200 shadow:trial" + standard(3, 0, "3600") + ` [ratelimit-policy: "real";q=3;w=3600] [ratelimit: "real";r=0;t=3600]`},
				{0, client("x"), "429 limited:real" + standard(3, 0, "3600") + ` [ratelimit-policy: "real";q=3;w=3600] [ratelimit: "real";r=0;t=3600]` + problem("3600")},
				{0, client("y"), "200 allowed" + standard(3, 2, "3600") + ` [ratelimit-policy: "real";q=3;w=3600] [ratelimit: "real";r=2;t=3600]`},
			},
		},
		{
			name:   "a shadow rule alone leaves the response alone",
			config: `"rules": [{"name": "trial", "mode": "shadow", ` + once + `}]`,
			steps:  []step{{0, nil, "200 allowed"}, {0, nil, "200 shadow:trial"}},
		},
		{
			name: "what a shadow rule admitted it gets back when another rule rejects",
			config: `"rules": [
				{"name": "trial", "mode": "shadow", "limits": [{"algorithm": "fixed_window", "limit": 2, "window": "1h"}]},
				{"name": "real", "key": [{"header": "x-client"}], ` + once + `}]`,
			steps: []step{
				{0, client("x"), "200 allowed" + standard(1, 0, "3600")},
				{0, client("x"), "429 limited:real" + standard(1, 0, "3600") + problem("3600")},
				{0, client("x"), "429 limited:real" + standard(1, 0, "3600") + problem("3600")},
				{0, client("y"), "200 allowed" + standard(1, 0, "3600")},
				{0, client("z"), "200 shadow:trial" + standard(1, 0, "3600")},
			},
		},
		{
			name:   "a rule that is off does nothing",
			config: `"rules": [{"name": "a", "mode": "off", ` + once + `}]`,
			steps:  []step{{0, nil, "200 none"}, {0, nil, "200 none"}},
		},
		{
			name: "an exempt rule ends the list: what stands before it applies",
			config: `"rules": [
				{"name": "first", "match": {"headers": {"x-first": {"present": true}}}, ` + once + `},
				{"name": "free", "match": {"headers": {"x-client": "friend"}}, "exempt": true},
				{"name": "last", "key": [{"header": "x-client"}], ` + once + `}]`,
			steps: []step{
				{0, client("friend"), "200 exempt:free"},
				{0, client("friend"), "200 exempt:free"},
				{0, []string{"x-client", "friend", "x-first", ""}, "200 allowed" + standard(1, 0, "3600")},
				{0, []string{"x-client", "friend", "x-first", ""}, "429 limited:first" + standard(1, 0, "3600") + problem("3600")},
				{0, client("x"), "200 allowed" + standard(1, 0, "3600")},
				{0, client("x"), "429 limited:last" + standard(1, 0, "3600") + problem("3600")},
				{0, nil, "200 none"},
			},
		},
		{
			name: "tiers: one is unlimited, an unknown one is the default",
			config: `"rules": [{"name": "a", "key": [{"header": "x-client"}], "limits_by": {"source": {"header": "x-plan"}, "default": "free",
				"values": {"free": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}],
					"pro": [{"algorithm": "fixed_window", "limit": 2, "window": "1m"}], "gold": "unlimited"}}}]`,
			steps: []step{
				{0, []string{"x-client", "x", "x-plan", "gold"}, "200 allowed"},
				{0, []string{"x-client", "x", "x-plan", "gold"}, "200 allowed"},
				{0, []string{"x-client", "x", "x-plan", "pro"}, "200 allowed" + standard(2, 1, "60")},
				{0, []string{"x-client", "x"}, "200 allowed" + standard(1, 0, "3600")},
				{0, []string{"x-client", "x", "x-plan", "lead"}, "429 limited:a" + standard(1, 0, "3600") + problem("3600")},
				{0, []string{"x-client", "x", "x-plan", "pro"}, "200 allowed" + standard(2, 0, "60")},
			},
		},
		{
			name: "costs",
			config: `"rules": [{"name": "a", "key": [{"header": "x-client"}], "cost": {"header": "x-cost", "default": 2, "max": 100},
				"limits": [{"algorithm": "gcra", "limit": 1, "window": "1s", "burst": 10}]}]`,
			steps: []step{
				{0, []string{"x-client", "x", "x-cost", "3"}, "200 allowed" + standard(10, 7, "3")},
				{0, client("x"), "200 allowed" + standard(10, 5, "5")},
				{0, []string{"x-client", "x", "x-cost", "many"}, "200 allowed" + standard(10, 3, "7")},
				{0, []string{"x-client", "x", "x-cost", "-1"}, "200 allowed" + standard(10, 1, "9")},
				{0, []string{"x-client", "x", "x-cost", "0"}, "200 allowed" + standard(10, 1, "9")},
				{0, []string{"x-client", "x", "x-cost", "4"}, "429 limited:a" + standard(10, 1, "9") + problem("3")},
				{0, []string{"x-client", "x", "x-cost", "1"}, "200 allowed" + standard(10, 0, "10")},
				{0, []string{"x-client", "x", "x-cost", "0"}, "200 allowed" + standard(10, 0, "10")},
				{0, []string{"x-client", "x", "x-cost", "99999999999999999999"}, "429 limited:a" + standard(10, 0, "10") + problem("")},
				{0, []string{"x-client", "y", "x-cost", "11"}, "429 limited:a" + standard(10, 10, "0") + problem("")},
				{0, []string{"x-client", "y", "x-cost", "10"}, "200 allowed" + standard(10, 0, "10")},
				{10 * time.Second, []string{"x-client", "y", "x-cost", "0"}, "200 allowed" + standard(10, 10, "0")},
			},
		},
	} {
		s.run(t)
	}
}
