package explain_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/input"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

const aLimit = `{"algorithm": "gcra", "limit": 10, "window": "1s"}`

const explained = `{
  "redis": {"cluster": "redis"},
  "rules": [
    {"name": "health", "match": {"path": "/healthz"}, "exempt": true},
    {"name": "per key", "match": {"path": {"prefix": "/api/"}, "methods": ["GET"], "headers": {"x-a": "1"}},
     "key": [{"header": "x-api-key"}, {"cookie": "c", "hash": false, "default": "none"}],
     "cost": {"header": "x-cost", "default": 2},
     "limits": [{"algorithm": "gcra", "limit": 10, "window": "60s", "burst": 20},
     	{"algorithm": "fixed_window", "limit": 100, "window": "1h"}]},
    {"name": "plan", "mode": "shadow", "overrides": true,
     "key": [{"client_ip": true}],
     "limits_by": {"source": {"metadata": ["jwt", "plan"]},
       "values": {"free": [` + aLimit + `], "7": [` + aLimit + `], "true": [` + aLimit + `], "staff": "unlimited"}}},
    {"name": "gone", "mode": "off", "limits": [` + aLimit + `]},
    {"name": "cel", "match": {"client_ip": ["10.0.0.0/8"], "expr": "request.headers['x-plan'] == 'free'"},
    	"limits": [` + aLimit + `]},
    {"name": "cel key", "key": [{"expr": "request.headers['x-a'] + request.path"}], "limits": [` + aLimit + `]},
    {"name": "brought", "match": {"headers": {"x-two": {"present": true}}},
     "cost": {"expr": "size(request.headers['x-two'])"},
     "limits": [{"algorithm": "gcra", "window": "1s", "limit": {"metadata": ["jwt", "rate"], "default": 5, "max": 50},
     	"burst": {"expr": "7", "default": 1, "max": 9}},
       {"algorithm": "fixed_window", "window": "1d", "limit": 10, "cost": 2}]},
    {"name": "peer", "key": [{"property": ["connection", "id"]}], "match": {"not": {"host": "b"}},
    	"limits": [` + aLimit + `]},
    {"name": "named", "match": {"query": {"plan": "free"}, "cookies": {"seen": {"present": true}}},
     "limits": [` + aLimit + `]},
    {"name": "others", "match": {"not": [{"host": "b"}, {"path": {"prefix": "/c/"}}]}, "limits": [` + aLimit + `]}
  ]}`

// request makes a request of flags and arguments.
func request(t *testing.T, args []string) *explain.Request {
	t.Helper()
	var described input.Request
	command := &cobra.Command{}
	described.Flags(command)
	testenv.OK(t, command.ParseFlags(args))
	made, err := described.Make(command.Flags().Args())
	testenv.OK(t, err)
	return made
}

// rules are Explain's answers about a request.
func rules(t *testing.T, configuration string, args ...string) map[string]explain.Rule {
	t.Helper()
	cfg, err := input.Load([]byte(configuration))
	testenv.OK(t, err)
	all, err := explain.Explain(cfg, request(t, args))
	testenv.OK(t, err)
	found := map[string]explain.Rule{}
	for _, r := range all {
		testenv.Same(t, "applied, of "+r.Rule, r.Applied != nil, r.Applies && r.Mode != "exempt")
		r.Applied = nil
		found[r.Rule] = r
	}
	return found
}

var explanations = []struct {
	name string
	args []string
	rule string
	want explain.Rule
}{
	{
		name: "an exempt rule", args: []string{"http://h/healthz"}, rule: "health",
		want: explain.Rule{Mode: "exempt", Applies: true},
	},
	{
		name: "an exempt rule and a path in another spelling", args: []string{"http://h/x/../healthz"}, rule: "health",
		want: explain.Rule{Mode: "exempt", Why: "it is not sure that its match holds for the upstream, too: " +
			"an exempt rule takes only a path as Sluice normalises it, a method in upper case, and one value of a header, a " +
			"query parameter or a cookie"},
	},
	{
		name: "an exempt rule and a control character in the query", rule: "health",
		args: []string{"http://h/x/../healthz?%0A"},
		want: explain.Rule{Mode: "exempt", Why: "it is not sure that its match holds for the upstream, too: " +
			"an exempt rule takes only a path as Sluice normalises it, a method in upper case, and one value of a header, a " +
			"query parameter or a cookie"},
	},
	{
		name: "an exempt rule and a control character", args: []string{"http://h/healthz%0A?a"}, rule: "health",
		want: explain.Rule{Mode: "exempt", Why: "the path holds a control character, or an escape of one: no such request " +
			"is exempt"},
	},
	{
		name: "several values", rule: "per key",
		args: []string{
			"http://h/api/", "-H", "X-Api-Key: k", "-H", "X-Api-Key: l", "-H", "x-a: 1", "-H", "cookie: c=%25many",
		},
		want: explain.Rule{
			Mode: "enforce", Applies: true, Identity: "%many|%25many", Tag: "per%20key|%many|%25many", Cost: 2,
			Shared: []string{"%many: the header x-api-key has several different values"},
		},
	},
	{
		name: "a query parameter and a cookie", args: []string{"http://h/?plan=fr%65e", "-H", "cookie: seen="}, rule: "named",
		want: explain.Rule{Mode: "enforce", Applies: true, Tag: "named|", Cost: 1},
	},
	{
		name: "another query parameter", args: []string{"http://h/?Plan=free", "-H", "cookie: seen=1"}, rule: "named",
		want: explain.Rule{Mode: "enforce", Why: `match.query["plan"] does not hold`},
	},
	{
		name: "no cookie", args: []string{"http://h/?plan=free"}, rule: "named",
		want: explain.Rule{Mode: "enforce", Why: `match.cookies["seen"] does not hold`},
	},
	{
		name: "a method in lower case", args: []string{"get", "http://h/api/", "-H", "X-Api-Key: k", "-H", "x-a: 1"},
		rule: "per key",
		want: explain.Rule{Mode: "enforce", Applies: true, Identity: "k|none", Tag: "per%20key|k|none", Cost: 2},
	},
	{
		name: "after an exempt rule", args: []string{"http://h/healthz"}, rule: "peer",
		want: explain.Rule{Mode: "enforce", Why: `it comes after the exempt rule "health", which matches`},
	},
	{
		name: "a rule that applies", args: []string{"http://h/x/../api/", "-H", "X-Api-Key: k", "-H", "x-a: 1"},
		rule: "per key",
		want: explain.Rule{
			Mode: "enforce", Applies: true, Identity: "k|none", Tag: "per%20key|k|none", Cost: 2,
			Limits: []explain.Limit{
				{
					Name: "per key-60s", Algorithm: "gcra", Limit: 10, Window: "1m", Capacity: 20,
					Key: "rl:{per%20key|k|none}:gcra:1m",
				},
				{
					Name: "per key-1h", Algorithm: "fixed_window", Limit: 100, Window: "1h", Capacity: 100,
					Key: "rl:{per%20key|k|none}:fixed_window:1h",
				},
			},
		},
	},
	{
		name: "a cost and cookies", rule: "per key",
		args: []string{
			"http://h/api/", "-H", "x-api-key: k", "-H", "x-a: 1", "-H", "x-cost: 5", "-H", "cookie: b=1",
			"-H", "cookie: c=2",
		},
		want: explain.Rule{Mode: "enforce", Applies: true, Identity: "k|2", Tag: "per%20key|k|2", Cost: 5},
	},
	{
		name: "another path", args: []string{"http://h/"}, rule: "per key",
		want: explain.Rule{Mode: "enforce", Why: "match.path does not hold"},
	},
	{
		name: "another method", args: []string{"POST", "http://h/api/"}, rule: "per key",
		want: explain.Rule{Mode: "enforce", Why: "match.methods does not hold"},
	},
	{
		name: "no header to match", args: []string{"http://h/api/"}, rule: "per key",
		want: explain.Rule{Mode: "enforce", Why: `match.headers["x-a"] does not hold`},
	},
	{
		name: "no key", args: []string{"http://h/api/", "-H", "x-a: 1"}, rule: "per key",
		want: explain.Rule{Mode: "enforce", Why: `key[0] is absent: header "x-api-key" (-H 'x-api-key: ...')`},
	},
	{
		name: "no address", args: []string{"http://h/"}, rule: "plan",
		want: explain.Rule{Mode: "shadow", Why: "key[0] is absent: client_ip (--client-ip)"},
	},
	{
		name: "no tier", args: []string{"http://h/", "--client-ip", "10.0.0.1"}, rule: "plan",
		want: explain.Rule{Mode: "shadow", Why: `limits_by has no tier for it, and no default: metadata ["jwt" "plan"] ` +
			`(--metadata)`},
	},
	{
		name: "a tier", args: []string{"http://h/", "--client-ip", "10.0.0.1", "--metadata", `{"jwt": {"plan": "free"}}`},
		rule: "plan",
		want: explain.Rule{
			Mode: "shadow", Applies: true, Identity: "10.0.0.1", Tag: "plan|10.0.0.1", Cost: 1, Tier: "free",
			OverrideKey: "rl:{plan|10.0.0.1}:override",
		},
	},
	{
		name: "a tier by a number",
		args: []string{"http://h/", "--client-ip", "10.0.0.1", "--metadata", `{"jwt": {"plan": 7}}`}, rule: "plan",
		want: explain.Rule{
			Mode: "shadow", Applies: true, Identity: "10.0.0.1", Tag: "plan|10.0.0.1", Cost: 1, Tier: "7",
			OverrideKey: "rl:{plan|10.0.0.1}:override",
		},
	},
	{
		name: "a tier by a boolean",
		args: []string{"http://h/", "--client-ip", "10.0.0.1", "--metadata", `{"jwt": {"plan": true}}`}, rule: "plan",
		want: explain.Rule{
			Mode: "shadow", Applies: true, Identity: "10.0.0.1", Tag: "plan|10.0.0.1", Cost: 1, Tier: "true",
			OverrideKey: "rl:{plan|10.0.0.1}:override",
		},
	},
	{
		name: "an unlimited tier", args: []string{
			"http://h/", "--client-ip", "::1", "--metadata",
			`{"jwt": {"plan": "staff"}}`,
		}, rule: "plan",
		want: explain.Rule{
			Mode: "shadow", Applies: true, Identity: "::1", Tag: "plan|::1", Cost: 1, Tier: "staff", Unlimited: true,
			OverrideKey: "rl:{plan|::1}:override",
		},
	},
	{
		name: "a rule that is off", args: []string{"http://h/"}, rule: "gone",
		want: explain.Rule{Mode: "off", Why: "its mode is off"},
	},
	{
		name: "another client", args: []string{"http://h/", "--client-ip", "11.0.0.1"}, rule: "cel",
		want: explain.Rule{Mode: "enforce", Why: "match.client_ip does not hold"},
	},
	{
		name: "an expression that holds", args: []string{"http://h/", "--client-ip", "10.0.0.1", "-H", "x-plan: free"},
		rule: "cel",
		want: explain.Rule{Mode: "enforce", Applies: true, Tag: "cel|", Cost: 1},
	},
	{
		name: "an expression that does not", args: []string{"http://h/", "--client-ip", "10.0.0.1", "-H", "x-plan: pro"},
		rule: "cel",
		want: explain.Rule{Mode: "enforce", Why: "match.expr does not hold"},
	},
	{
		name: "an expression without a value", args: []string{"http://h/", "--client-ip", "10.0.0.1"}, rule: "cel",
		want: explain.Rule{Mode: "enforce", Why: "match.expr does not hold (no such key: x-plan)"},
	},
	{
		name: "an expression as key", args: []string{"http://h/b", "-H", "x-a: 1"}, rule: "cel key",
		want: explain.Rule{Mode: "enforce", Applies: true, Identity: "1/b", Tag: "cel%20key|1/b", Cost: 1},
	},
	{
		name: "an expression as key, without a value", args: []string{"http://h/"}, rule: "cel key",
		want: explain.Rule{Mode: "enforce", Why: "key[0] is absent: its expression has no value (no such key: x-a)"},
	},
	{
		name: "what comes with the request", rule: "brought",
		args: []string{"http://h/", "-H", "x-two: ab", "-H", "x-two: c", "--metadata", `{"jwt": {"rate": 30}}`},
		want: explain.Rule{
			Mode: "enforce", Applies: true, Tag: "brought|", Cost: 4,
			Limits: []explain.Limit{
				{Name: "brought-1s", Algorithm: "gcra", Limit: 30, Window: "1s", Capacity: 7, Key: "rl:{brought|}:gcra:1s"},
				{
					Name: "brought-1d", Algorithm: "fixed_window", Limit: 10, Window: "1d", Capacity: 10, Cost: new(int64(2)),
					Key: "rl:{brought|}:fixed_window:1d",
				},
			},
		},
	},
	{
		name: "a property", args: []string{"http://h/", "--property", "connection.id=7"}, rule: "peer",
		want: explain.Rule{Mode: "enforce", Applies: true, Identity: "7", Tag: "peer|7", Cost: 1},
	},
	{
		name: "not", args: []string{"http://a/", "-H", "Host: b"}, rule: "peer",
		want: explain.Rule{Mode: "enforce", Why: "match.not holds"},
	},
	{
		name: "one of several nots", args: []string{"http://a/c/d"}, rule: "others",
		want: explain.Rule{Mode: "enforce", Why: "match.not[1] holds"},
	},
}

func TestExplain(t *testing.T) {
	t.Parallel()
	for _, c := range explanations {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, want := rules(t, explained, c.args...)[c.rule], c.want
			want.Rule = c.rule
			if want.Limits == nil { // the row is about something else
				got.Limits = nil
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%+v, want %+v", got, want)
			}
		})
	}
}

// TestRepeated: where a repetition keeps a rule from exempting, its name is told, also inside of "not".
func TestRepeated(t *testing.T) {
	t.Parallel()
	const configuration = `{"rules": [
		{"name": "query", "match": {"query": {"a": "1"}, "cookies": {"c": {"present": true}}}, "exempt": true},
		{"name": "cookie", "match": {"cookies": {"b": "1"}}, "exempt": true},
		{"name": "not", "match": {"not": {"query": {"a": "3"}}}, "exempt": true},
		{"name": "rest", "limits": [` + aLimit + `]}]}`
	const unsure = "it is not sure that its match holds for the upstream, too: "
	found := rules(t, configuration, "http://h/?a=1&a=2", "-H", "cookie: b=1; b=2; c=1; c=2")
	for rule, why := range map[string]string{
		"query":  unsure + "the query parameter a has several different values",
		"cookie": unsure + "the cookie b has several different values",
		"not":    unsure + "the query parameter a has several different values",
		"rest":   "",
	} {
		testenv.Same(t, "why "+rule+" does not apply", found[rule].Why, why)
	}
}

// TestHeaders: what clients are told with the first request, by each rule that shows them its limits.
func TestHeaders(t *testing.T) {
	t.Parallel()
	const (
		draft  = `"headers": ["draft"], `
		hourly = `{"algorithm": "fixed_window", "anchor": "first_request", "limit": 10, "window": "1h"}`
		bucket = `"limits": [{"algorithm": "gcra", "limit": 10, "window": "1m", "burst": 5`
	)
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC).UnixMicro()
	for _, tt := range []struct{ name, members, want string }{
		{"a bucket", draft + `"rules": [{"name": "r", ` + bucket + `}]}]`, `"r";q=5;w=30 "r";r=4;t=24`},
		{
			"a unit, and a cost", draft + `"rules": [{"name": "r", "cost": 3, ` + bucket + `, "unit": "tokens"}]}]`,
			`"r";q=5;w=30;qu="tokens" "r";r=2;t=12`,
		},
		{"the other fields", `"rules": [{"name": "r", ` + bucket + `}]}]`, "5 4 6"},
		{"a rule that nobody sees", `"rules": [{"name": "r", "headers": false, ` + bucket + `}]}]`, ""},
		{"in shadow", `"rules": [{"name": "r", "mode": "shadow", ` + bucket + `}]}]`, ""},
		{"a request that is never admitted", `"rules": [{"name": "r", "limits": [` +
			`{"algorithm": "gcra", "limit": 0, "window": "1m"}]}]`, ""},
		{
			"a calendar", draft + `"rules": [{"name": "r", "limits": [` +
				`{"algorithm": "fixed_window", "limit": 9, "window": "day"}]}]`, `"r";q=9;w=86400 "r";r=8;t=43200`,
		},
		{
			"a number that the request brings", draft + `"rules": [{"name": "r", "limits": [{"algorithm": "fixed_window", ` +
				`"anchor": "first_request", "window": "1h", "limit": {"header": "x-n", "default": 7, "max": 9}}]}]`,
			`"r";q=7;w=3600 "r";r=6;t=3600`,
		},
		{
			"parts, of which one does not apply", draft + `"rules": [{"name": "r", "key": [], "limits": [` + hourly + `, ` +
				strings.Replace(hourly, `10`, `4, "name": "user", "per": [{"header": "x-user"}]`, 1) + `, ` +
				strings.Replace(hourly, `10`, `5, "name": "team", "per": [{"header": "x-team"}]`, 1) + `]}]`,
			`"r-1h";q=10;w=3600, "user";q=4;w=3600 "r-1h";r=9;t=3600, "user";r=3;t=3600`,
		},
		{
			"a guarantee", draft + `"rules": [{"name": "r", "key": [], "limits": [` +
				`{"name": "pool", "algorithm": "gcra", "limit": 60, "window": "1m"}, {"name": "own", "algorithm": "gcra", ` +
				`"limit": 6, "window": "1m", "per": [{"header": "x-user"}], "guarantee": true}]}]`,
			`"own";q=6;w=60 "own";r=5;t=50`,
		},
		{
			"slots", draft + `"rules": [{"name": "r", "limits": [{"algorithm": "concurrency", "limit": 3}]}]`,
			`"r";q=3;qu="concurrent-requests" "r";r=2`,
		},
	} {
		cfg, err := input.Load([]byte("{" + tt.members + "}"))
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		all, err := explain.Explain(cfg, request(t, []string{"http://h/", "-H", "x-user: ann"}))
		testenv.OK(t, err)
		var values []string
		for _, h := range explain.Headers(cfg, all, noon) {
			values = append(values, h[1])
		}
		testenv.Same(t, tt.name, strings.Join(values, " "), tt.want)
	}
}
