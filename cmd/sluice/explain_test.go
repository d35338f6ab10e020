package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
)

const explained = `{
  "redis": {"cluster": "redis"},
  "rules": [
    {"name": "health", "match": {"path": "/healthz"}, "exempt": true},
    {"name": "per key", "match": {"path": {"prefix": "/api/"}, "methods": ["GET"], "headers": {"x-a": "1"}},
     "key": [{"header": "x-api-key"}, {"cookie": "c", "default": "none"}],
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
    {"name": "others", "match": {"not": [{"host": "b"}, {"path": {"prefix": "/c/"}}]}, "limits": [` + aLimit + `]}
  ]}`

func TestExplain(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
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
				"an exempt rule takes only a path as Sluice normalises it, and a method in upper case"},
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
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := execute(t, explained, append([]string{"explain", "-o", "json", "-c", "-"}, c.args...)...)
			if r.code != console.Done {
				t.Fatalf("exit code %d: %s", r.code, r.errors)
			}
			var got explain.Rule
			for _, candidate := range decode[struct{ Rules []explain.Rule }](t, r).Rules {
				if candidate.Rule == c.rule {
					got = candidate
				}
			}
			for i, want := range c.want.Limits {
				if i >= len(got.Limits) || !reflect.DeepEqual(got.Limits[i], want) {
					t.Errorf("limits %+v, want %+v", got.Limits, c.want.Limits)
					break
				}
			}
			got.Limits, c.want.Limits, c.want.Rule = nil, nil, c.rule
			if got.Mode != c.want.Mode || got.Applies != c.want.Applies || got.Why != c.want.Why ||
				got.Identity != c.want.Identity ||
				got.Tag != c.want.Tag || got.Cost != c.want.Cost || got.Tier != c.want.Tier || got.Unlimited != c.want.Unlimited {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			if got.OverrideKey != c.want.OverrideKey {
				t.Errorf("override key %q, want %q", got.OverrideKey, c.want.OverrideKey)
			}
		})
	}
}

func TestExplainTable(t *testing.T) {
	t.Parallel()
	r := execute(t, explained, "explain", "-c", "-", "http://h/api/", "-H", "x-api-key: k", "-H", "x-a: 1", "--client-ip",
		"::1", "--metadata", `{"jwt": {"plan": "staff"}}`)
	want := strings.TrimLeft(`
RULE     APPLIES                IDENTITY     COST  LIMIT                    KEY IN REDIS
health   no: match.path does not hold
per key  yes                    k|none       2     gcra 10 in 1m, burst 20  rl:{per%20key|k|none}:gcra:1m
                                                   fixed_window 100 in 1h   rl:{per%20key|k|none}:fixed_window:1h
plan     in shadow, tier staff  ::1          1     unlimited
                                                   override                 rl:{plan|::1}:override
gone     no: its mode is off
cel      no: match.client_ip does not hold
cel key  yes                    1/api/       1     gcra 10 in 1s            rl:{cel%20key|1/api/}:gcra:1s
brought  no: match.headers["x-two"] does not hold
peer     no: key[0] is absent: property connection.id (--property connection.id=...)
others   yes                    (everybody)  1     gcra 10 in 1s            rl:{others|}:gcra:1s
`, "\n")
	if r.out != want {
		t.Errorf("\n%s\nwant\n%s", r.out, want)
	}
}

// TestExplainFailure: a rule's own failure mode is shown where it is another than the
// configuration's.
func TestExplainFailure(t *testing.T) {
	t.Parallel()
	const configuration = `{"redis": {"cluster": "redis"}, "failure": {"mode": "local"}, "rules": [
		{"name": "logins", "failure": "deny", "limits": [` + aLimit + `]},
		{"name": "api", "failure": "local", "limits": [` + aLimit + `]},
		{"name": "rest", "limits": [` + aLimit + `]}]}`
	r := execute(t, configuration, "explain", "-c", "-", "http://h/")
	want := strings.TrimLeft(`
RULE    APPLIES               IDENTITY     COST  LIMIT          KEY IN REDIS
logins  yes, on failure deny  (everybody)  1     gcra 10 in 1s  rl:{logins|}:gcra:1s
api     yes                   (everybody)  1     gcra 10 in 1s  rl:{api|}:gcra:1s
rest    yes                   (everybody)  1     gcra 10 in 1s  rl:{rest|}:gcra:1s
`, "\n")
	if r.out != want {
		t.Errorf("\n%s\nwant\n%s", r.out, want)
	}
	r = execute(t, configuration, "explain", "-o", "json", "-c", "-", "http://h/")
	for i, want := range []string{"deny", "", ""} {
		if got := decode[struct{ Rules []explain.Rule }](t, r).Rules[i].Failure; got != want {
			t.Errorf("rule %d: failure %q, want %q", i, got, want)
		}
	}
}

// TestExplainShadow: the mode of the whole configuration makes enforced rules shadow rules,
// and leaves others.
func TestExplainShadow(t *testing.T) {
	t.Parallel()
	r := execute(t, `{"mode": "shadow", "rules": [
		{"name": "a", "mode": "enforce", "limits": [`+aLimit+`]},
		{"name": "b", "mode": "off", "limits": [`+aLimit+`]},
		{"name": "c", "exempt": true}]}`, "explain", "-c", "-", "http://h/")
	want := strings.TrimLeft(`
RULE  APPLIES    IDENTITY     COST  LIMIT          KEY IN REDIS
a     in shadow  (everybody)  1     gcra 10 in 1s
b     no: its mode is off
c     exempt: no rule after it applies
`, "\n")
	if r.out != want {
		t.Errorf("\n%s\nwant\n%s", r.out, want)
	}
}

func TestExplainRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		args   []string
		errors string
	}{
		{"no URL", []string{"h/x"}, `"h/x" is not a URL`},
		{"no header", []string{"http://h/", "-H", "x"}, `"x" is not a header`},
		{"no property", []string{"http://h/", "--property", "x"}, `"x" is not a property`},
		{"no address", []string{"http://h/", "--client-ip", "x"}, `"x" is not an IP address`},
		{"no metadata", []string{"http://h/", "--metadata", "x"}, "the metadata is not a JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := execute(t, explained, append([]string{"explain", "-c", "-"}, c.args...)...)
			if r.code != console.Misused {
				t.Errorf("exit code %d, want %d", r.code, console.Misused)
			}
			if !strings.Contains(r.errors, c.errors) {
				t.Errorf("errors %s, want %s", r.errors, c.errors)
			}
		})
	}
}
