package main

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/live"
	"github.com/sluiceproxy/sluice/internal/redistest"
)

// counted are rules of every kind that a request may meet.
const counted = `{"redis": {"cluster": "redis"}, "rules": [
  {"name": "health", "match": {"path": "/healthz"}, "exempt": true},
  {"name": "per-key", "match": {"path": {"prefix": "/api/"}}, "key": [{"header": "x-api-key"}],
  	"cost": {"header": "x-cost", "default": 1}, "overrides": true,
   "limits": [{"algorithm": "gcra", "limit": 1, "window": "1h", "burst": 5, "name": "bucket"},
              {"algorithm": "fixed_window", "limit": 100, "window": "1d", "anchor": "first_request", "name": "daily"}]},
  {"name": "watched", "match": {"path": {"prefix": "/api/"}}, "mode": "shadow", "key": [{"metadata": ["jwt", "org"]}],
   "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1d", "anchor": "first_request"}]},
  {"name": "jobs", "match": {"path": {"prefix": "/jobs"}}, "key": [{"header": "x-api-key"}],
  	"limits": [{"algorithm": "concurrency", "limit": 1, "ttl": "1h"}]}
]}`

// charging are the same rules for charge, which knows no overrides.
var charging = strings.Replace(counted, `"overrides": true,`, "", 1)

var someTime = regexp.MustCompile(`\b\d+(h\d+m\d+s|h\d+m|m\d+s|[hms]| ms)( |,|\.|$)`)

// wouldBe are requests, and what would become of each now.
var wouldBe = []struct {
	name, args string
	now        string
	summary    string // its times as T
}{
	{"exempt", "GET http://h/healthz", live.Admitted, `It would be admitted: rule "health" exempts it.`},
	{"no rule", "http://h/other", live.Admitted, `It would be admitted: no rule applies to it.`},
	{"room", "-H x-api-key:half http://h/api/x", live.Admitted, `It would be admitted.`},
	{
		"too dear", "-H x-api-key:half -H x-cost:4 http://h/api/x", live.Rejected,
		`It would be rejected by rule "per-key", by limit "bucket" of per-key|half, for another T.`,
	},
	{
		"never", "-H x-api-key:half -H x-cost:50 http://h/api/x", live.Rejected,
		`It would be rejected by rule "per-key", by limit "bucket" of per-key|half.`,
	},
	{
		"full", "-H x-api-key:full PUT http://h/api/x", live.Rejected,
		`It would be rejected by rule "per-key", by limit "bucket" of per-key|full, for another T.`,
	},
	{
		"blocked", "-H x-api-key:blocked http://h/api/x", live.Rejected,
		`It would be rejected by rule "per-key", by the block of per-key|blocked.`,
	},
	{"free", "-H x-api-key:freed http://h/api/x", live.Admitted, `It would be admitted.`},
	{"overridden", "-H x-api-key:doubled http://h/api/x", live.Admitted, `It would be admitted.`},
	{"in shadow", `--metadata {"jwt":{"org":"o"}} http://h/api/x`, live.Admitted, `It would be admitted.`},
	{
		"no slot", "-H x-api-key:a http://h/jobs", live.Rejected,
		`It would be rejected by rule "jobs", by limit "jobs" of jobs|a.`,
	},
}

func TestGetRequest(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	api := request(t, "http://h/api/", "x-api-key: full")
	charge(t, client, charging, api, "per-key", 5)
	charge(t, client, charging, request(t, "http://h/api/", "x-api-key: half"), "per-key", 2)
	charge(t, client, charging, request(t, "http://h/jobs", "x-api-key: a"), "jobs", 1)
	for name, value := range map[string]string{"blocked": "block", "freed": "free", "doubled": "x2"} {
		if err := client.Set(context.Background(), "rl:{per-key|"+name+"}:override", value, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	charge(t, client, charging, request(t, "http://h/api/", "x-api-key: doubled"), "per-key", 5)
	for _, c := range wouldBe {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := execute(t, counted, append([]string{"get", "-c", "-", "-o", "json", "--redis", server.Addr},
				strings.Fields(c.args)...)...)
			if r.code != console.Done {
				t.Fatalf("exit code %d: %s", r.code, r.errors)
			}
			got := decode[live.RequestState](t, r)
			if got.Now != c.now {
				t.Errorf("%s, want %s", got.Now, c.now)
			}
			if steady := someTime.ReplaceAllString(got.Summary, "T$2"); steady != c.summary {
				t.Errorf("summary %s, want %s", steady, c.summary)
			}
			if len(got.Rules) != 4 {
				t.Errorf("%d rules, want each", len(got.Rules))
			}
		})
	}
}

func TestGetPasted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	charge(t, server.Client(), charging, request(t, "http://h/api/", "x-api-key: a|b"), "per-key", 3)
	const body = `{"type":"x","title":"Too Many Requests","status":429,"detail":"d","violated-policies":["daily"]}`
	for _, c := range []struct {
		name   string
		pasted string
		values []string
		code   int
		says   string // of the output, or the errors
	}{
		{
			"filter state", `{"limit":"bucket","identity":"a%7Cb","retry_after":12}`, nil, console.Done,
			`"tag": "per-key|a%7Cb"`,
		},
		{
			"a line of a log", `GET /api/ 429 limited:per-key 1ms {"limit":"daily","identity":"a%7Cb","retry_after":12}`, nil,
			console.Done, `"used": 3`,
		},
		{
			"a line of JSON", `{"path":"/limited:jobs","status":429,"sluice":"limited:per-key","rejected":` +
				`"{\"limit\":\"daily\",\"identity\":\"a%7Cb\",\"retry_after\":12}","details":"sluice"}`, nil, console.Done,
			`"used": 3`,
		},
		{"block in JSON", `{"rejected":"{\"identity\":\"a%7Cb\"}","sluice":"blocked:jobs"}`, nil, console.Done, "jobs|a%7Cb"},
		{"a block", `{"limit":null,"identity":"a%7Cb"}`, nil, console.Done, `"tag": "per-key|a%7Cb"`},
		{"a body", body, []string{"a|b"}, console.Done, `"used": 3`},
		{
			"a body without whom", body, nil, console.Misused,
			`the key of rule "per-key" has 1 value, 0 given (want the header x-api-key)`,
		},
		{
			"an unknown limit", `{"limit":"other","identity":"a"}`, nil, console.Misused,
			`no rule of this configuration has a limit "other"`,
		},
		{"something else", `hello`, nil, console.Misused, `--request: "hello" is not what a rejection leaves`},
		{"another object", `{"a":1}`, nil, console.Misused, `is not what a rejection leaves`},
		{
			"an identity and values", `{"limit":"bucket","identity":"a"}`,
			[]string{"a"},
			console.Misused,
			`--request has the identity: leave out the values`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"get", "-c", "-", "-o", "json", "--redis", server.Addr, "--request", c.pasted}, c.values...)
			r := execute(t, counted, args...)
			if r.code != c.code {
				t.Errorf("exit code %d, want %d", r.code, c.code)
			}
			if out := r.out + r.errors; !strings.Contains(out, c.says) {
				t.Errorf("%s\nwant %s", out, c.says)
			}
		})
	}
}

// figures match the numbers that differ from run to run.
var figures = regexp.MustCompile(`[0-9]+`)

// evenly is a text without its figures, and with columns of no width.
func evenly(s string) string {
	s = regexp.MustCompile(`#h#m#s|#m#s|#h#m|#h|#m\b|#s\b|# ms`).ReplaceAllString(figures.ReplaceAllString(s, "#"), "T")
	return regexp.MustCompile(` +`).ReplaceAllString(s, " ")
}

const requestOfAlice = `RULE     LIMIT   USED  REMAINING  RESET IN   NOW                 WHAT
health   no: match.path does not hold
per-key  bucket  5     0          4h59m59s   rejects for 59m59s  gcra 1 in 1h, burst 5
         daily   5     95         23h59m59s  admits              fixed_window 100 in 1d
watched  no: key[0] is absent: metadata ["jwt" "org"] (--metadata)
jobs     no: match.path does not hold
It would be rejected by rule "per-key", by limit "bucket" of per-key|alice, for another 59m59s.
`

// TestGetExamples runs the example of docs/cli.md, and the same identity's request.
func TestGetExamples(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	plugin := write(t, "plugin.json", counted)
	charge(t, server.Client(), charging, request(t, "http://h/api/", "x-api-key: alice"), "per-key", 5)
	examples := []pageExample{
		readExample(t, "## get, reset").with(map[string]string{"plugin.json": plugin, "redis:6379": server.Addr}),
		{[]string{
			"get", "-c", plugin, "--redis", server.Addr, "-H", "x-api-key: alice", "GET",
			"https://api.example.com/api/orders",
		}, requestOfAlice},
	}
	for _, e := range examples {
		r := execute(t, "", e.args...)
		if got := evenly(r.out); r.code != console.Done || got != evenly(e.out) {
			t.Errorf("%v: exit code %d\n%s%s\nwant\n%s", e.args, r.code, r.out, r.errors, e.out)
		}
	}
	if r := execute(t, "", "get", "-c", plugin, "--redis", server.Addr); r.code != console.Misused {
		t.Errorf("exit code %d without a rule", r.code)
	}
}
