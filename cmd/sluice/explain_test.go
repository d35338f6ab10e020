package main

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

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
    {"name": "others", "match": {"not": [{"host": "b"}, {"path": {"prefix": "/c/"}}]}, "limits": [` + aLimit + `]}
  ]}`

// TestExplainShared: the table says why an identity is one for many requests.
func TestExplainShared(t *testing.T) {
	t.Parallel()
	const bearer = `{"rules": [{"name": "r", "key": [{"bearer": true}], "limits": [` + aLimit + `]}]}`
	r := execute(t, bearer, "explain", "-c", "-", "http://h/", "-H", "authorization: Bearer")
	testenv.Same(t, "the table", r.out, strings.TrimLeft(`
RULE  APPLIES                                                      IDENTITY  COST  LIMIT          KEY IN REDIS
r     yes, %odd: the bearer token is none that upstreams agree on  %odd      1     gcra 10 in 1s
`, "\n"))
}

// TestExplainQuota: a request for the quota reads the listed rules, whatever their match is.
func TestExplainQuota(t *testing.T) {
	t.Parallel()
	const quota = `{"redis": {"cluster": "redis"}, "quota": {"path": "/quota", "rules": ["month", "key"]}, "rules": [
		{"name": "known", "match": {"path": {"prefix": "/q"}}, "exempt": true},
		{"name": "key", "match": {"path": {"prefix": "/api/"}}, "key": [{"header": "x-key"}], "cost": 5,
			"limits": [` + aLimit + `]},
		{"name": "month", "overrides": true, "key": [{"header": "x-other"}], "limits": [` + aLimit + `]},
		{"name": "all", "limits": [` + aLimit + `]},
		{"name": "api", "match": {"path": {"prefix": "/api/"}}, "limits": [` + aLimit + `]}]}`
	table := strings.TrimLeft(`
RULE   APPLIES             IDENTITY     COST  LIMIT          KEY IN REDIS
known  no: the request is for the quota, where exempt rules change nothing
key    shown in the quota  k            0     gcra 10 in 1s  rl:{key|k}:gcra:1s
month  no: key[0] is absent: header "x-other" (-H 'x-other: ...')
all    yes                 (everybody)  1     gcra 10 in 1s  rl:{all|}:gcra:1s
api    no: match.path does not hold
`, "\n")
	r := execute(t, quota, "explain", "-c", "-", "http://h/x/../quota", "-H", "x-key: k")
	testenv.Same(t, "the table", r.out, table)
	const want = "the request is for the quota, which is read by GET or HEAD: it is answered with 405"
	r = execute(t, quota, "explain", "-c", "-", "POST", "http://h/quota", "-H", "x-key: k")
	testenv.Same(t, "how often POST is told", strings.Count(r.out, want), 2)
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
	rules := decode[struct{ Rules []explain.Rule }](t, r).Rules
	testenv.Same(t, "rules in JSON", len(rules), 3)
	testenv.Same(t, "the failure mode in JSON", rules[0].Failure, "deny")
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

// QUERY reads as GET does, and a rule for GET does not see it: the answer says so.
func TestExplainQUERY(t *testing.T) {
	t.Parallel()
	const note = "match.methods does not hold: QUERY reads as GET does, and is a method of its own (list both)"
	for method, want := range map[string]bool{"QUERY": true, "POST": false} {
		r := execute(t, explained, "explain", "-c", "-", "-H", "x-a: 1", method, "http://h/api/")
		if got := strings.Contains(r.out, note); got != want {
			t.Errorf("%s: the note is there: %v, want %v:\n%s%s", method, got, want, r.out, r.errors)
		}
	}
}
