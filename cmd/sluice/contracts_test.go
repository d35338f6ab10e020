package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/simulate"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

const contracted = `{"redis": {"cluster": "redis"}, "rules": [
	{"name": "per-key", "key": [{"constant": "v1"}, {"header": "x-api-key"}, {"header": "x-team", "default": "-"}],
		"overrides": true, "limits_by": {"default": "free", "values": {
		"free": [{"algorithm": "gcra", "limit": 10, "window": "1m"}],
		"pro": [{"algorithm": "gcra", "limit": 100, "window": "1m"},
			{"algorithm": "fixed_window", "limit": 5000, "window": "1h"}],
		"staff": "unlimited"}}},
	{"name": "secret", "key": [{"header": "x-token", "hash": true}], "overrides": true,
		"limits": [{"algorithm": "fixed_window", "limit": 9, "window": "1h", "name": "a,b=c/d"}]},
	{"name": "by", "key": [{"header": "x-plan"}], "overrides": true,
		"limits_by": {"source": {"header": "x-plan"}, "values": {
		"free": [{"algorithm": "gcra", "limit": 10, "window": "1m"}],
		"pro": [{"algorithm": "gcra", "limit": 100, "window": "1m"},
			{"algorithm": "fixed_window", "limit": 5000, "window": "1h"}]}}},
	{"name": "plain", "key": [{"header": "x-api-key"}], "limits": [{"algorithm": "gcra", "limit": 10, "window": "1m"}]}]}`

// contracts is a Redis, a configuration and the command.
type contracts struct {
	t      *testing.T
	server *redistest.Server
	plugin string
}

func newContracts(t *testing.T) *contracts {
	t.Helper()
	return &contracts{t, redistest.Start(t), write(t, "plugin.json", contracted)}
}

func (c *contracts) run(args ...string) result {
	return execute(c.t, "", append(args, "-c", c.plugin, "--redis", c.server.Addr)...)
}

// want runs a command, and holds what it prints and how it ends.
func (c *contracts) want(code int, out string, args ...string) {
	c.t.Helper()
	r := c.run(args...)
	testenv.Same(c.t, strings.Join(args, " ")+": exit code", r.code, code)
	testenv.Same(c.t, strings.Join(args, " ")+": output", r.out, out)
}

// set is the value of an identity's key.
func (c *contracts) set(tag string) string {
	return c.server.Client().Get(context.Background(), "rl:{"+tag+"}:override").Val()
}

// TestOverrideFlags holds what --tier and --limit set, and what is refused.
func TestOverrideFlags(t *testing.T) {
	t.Parallel()
	c := newContracts(t)
	for _, tc := range []struct {
		args []string
		want string // what is set
		err  string
	}{
		{[]string{"per-key", "a", "b", "--tier", "pro"}, "tier:pro", ""},
		{[]string{"per-key", "a", "b", "--tier", "staff"}, "tier:staff", ""},
		{[]string{"per-key", "a", "b", "--limit", "per-key=20/5"}, "limits:per-key=20/5", ""},
		{[]string{"by", "pro", "--limit", "by-1m=20/5", "--limit", "by-1h=7"}, "limits:by-1m=20/5,by-1h=7", ""},
		{[]string{"by", "pro", "--limit", "by=20/5"}, "", `there is no limit "by" (want one of "by-1m", "by-1h")`},
		{[]string{"secret", "a", "--limit", "a,b=c/d=0"}, "limits:a%2Cb%3Dc%2Fd=0", ""},
		{[]string{"per-key", "a", "b", "--to", "tier:pro"}, "tier:pro", ""},
		{[]string{"per-key", "a", "b", "--tier", "gold"}, "", `there is no tier "gold" (want one of "free", "pro", "staff")`},
		{[]string{"secret", "a", "--tier", "pro"}, "", `there is no tier "pro": the rule has no tiers`},
		{[]string{"per-key", "a", "b", "--limit", "gold=1"}, "", `there is no limit "gold" (want one of "per-key")`},
		{
			[]string{"per-key", "a", "b", "--limit", "per-key=1", "--limit", "per-key=1"},
			"",
			`limit "per-key" has two numbers`,
		},
		{[]string{"by", "pro", "--limit", "by-1h=7/8"}, "", `limit "by-1h" takes no burst`},
		{[]string{"per-key", "a", "b", "--limit", "per-key=1000000001"}, "", `is not a number for a limit`},
		{[]string{"per-key", "a", "b", "--limit", "per-key"}, "", `is not a number for a limit`},
		{[]string{"per-key", "a", "b", "--tier", "pro", "--to", "x2"}, "", `want one of --to, --tier and --limit`},
		{[]string{"per-key", "a", "b"}, "", `want one of --to, --tier and --limit`},
		{[]string{"plain", "a", "--to", "x2"}, "", `does not read overrides`},
	} {
		what := strings.Join(tc.args, " ")
		r := c.run(append([]string{"override"}, tc.args...)...)
		if tc.err == "" {
			testenv.Same(t, what+": exit code", r.code, console.Done)
			testenv.Same(t, what, c.anyValue(), tc.want)
		} else {
			testenv.Same(t, what+": exit code", r.code, console.Misused)
			testenv.Same(t, what+": that it says "+tc.err+", not "+r.errors, strings.Contains(r.errors, tc.err), true)
		}
		c.server.Client().FlushAll(context.Background())
	}
}

func (c *contracts) keys() []string {
	return c.server.Client().Keys(context.Background(), "*").Val()
}

// anyValue is the value of the only key.
func (c *contracts) anyValue() string {
	for _, key := range c.keys() {
		return c.server.Client().Get(context.Background(), key).Val()
	}
	return ""
}

const someLines = `rule,values,setting,for
per-key,acme|red,tier:pro,
per-key,a%7Cb|,x2,2h
"per-key","b,c|""d""",limits:per-key=20/5,
per-key,{v1|e|f},block,1d
secret,sesame,free,
`

// TestImport sets what a file says, twice, and compares what is in force with the file.
func TestImport(t *testing.T) {
	t.Parallel()
	c := newContracts(t)
	file := write(t, "contracts.csv", someLines)
	c.want(console.Done, "5 added, 0 changed, 0 removed, 0 the same\n", "override", "import", file, "--dry-run")
	testenv.Same(t, "keys after --dry-run", len(c.keys()), 0)
	c.want(console.Refused, `+ per-key|v1|acme|red  tier:pro
+ per-key|v1|a%7Cb|  x2 for 2h
+ per-key|v1|b,c|"d"  limits:per-key=20/5
+ per-key|v1|e|f  block for 24h
+ secret|`+c.secret("sesame")+`  free
5 added, 0 changed, 0 removed, 0 the same
`, "override", "diff", file)
	c.want(console.Done, "5 added, 0 changed, 0 removed, 0 the same\n", "override", "import", file)
	c.want(console.Done, "0 added, 0 changed, 0 removed, 5 the same\n", "override", "diff", file)
	testenv.Same(t, "acme", c.set("per-key|v1|acme|red"), "tier:pro")
	testenv.Same(t, "an empty value", c.set("per-key|v1|a%7Cb|"), "x2")
	life := c.server.Client().PTTL(context.Background(), "rl:{per-key|v1|e|f}:override").Val()
	testenv.Within(t, "the life of the block, in hours", life, 23*time.Hour, 24*time.Hour)
	c.run("override", "per-key", "acme", "red", "--to", "x3")
	c.run("override", "per-key", "new", "red", "--to", "x3", "--reason", "why")
	c.want(console.Refused, `~ per-key|v1|acme|red  x3 -> tier:pro
- per-key|v1|new|red  x3
0 added, 1 changed, 1 removed, 4 the same
`, "override", "diff", file, "--prune")
	c.want(console.Done, "0 added, 1 changed, 0 removed, 4 the same\n", "override", "import", file)
	testenv.Same(t, "what the file does not have", c.set("per-key|v1|new|red"), "x3")
	c.want(console.Done, "0 added, 0 changed, 1 removed, 5 the same\n", "override", "import", file, "--prune")
	testenv.Same(t, "what is left", len(c.keys()), 5)
}

// secret is the identity of a token, as keys have it.
func (c *contracts) secret(token string) string {
	c.t.Helper()
	r := execute(c.t, "", "explain", "-c", c.plugin, "-H", "x-token: "+token, "-o", "json", "GET", "http://h/")
	_, rest, _ := strings.Cut(r.out, `"secret|`)
	identity, _, _ := strings.Cut(rest, `"`)
	if identity == "" {
		c.t.Fatal(r.out)
	}
	return identity
}

// TestExport holds that what export writes imports again, and sets the same.
func TestExport(t *testing.T) {
	t.Parallel()
	for _, format := range []string{"table", "json"} {
		c := newContracts(t)
		c.run("override", "import", write(t, "contracts.csv", someLines))
		before := map[string]string{}
		for _, key := range c.keys() {
			before[key] = c.server.Client().Get(context.Background(), key).Val()
		}
		var files []string
		for _, rule := range []string{"per-key", "secret"} {
			r := c.run("override", "export", rule, "-o", format)
			testenv.Same(t, format+": exit code", r.code, console.Done)
			files = append(files, write(t, rule, r.out))
		}
		if text, _ := os.ReadFile(files[0]); format == "table" &&
			!strings.HasPrefix(string(text), "rule,values,setting,for\nper-key,a%7Cb|,x2,") {
			t.Errorf("export wrote\n%s", text)
		}
		c.server.Client().FlushAll(context.Background())
		for _, file := range files {
			if r := c.run("override", "import", file); r.code != console.Done {
				t.Errorf("%s: %s", format, r.errors)
			}
		}
		for key, value := range before {
			testenv.Same(t, format+": "+key, c.server.Client().Get(context.Background(), key).Val(), value)
		}
		testenv.Same(t, format+": keys", len(c.keys()), len(before))
	}
}

// fileMistakes are files, and what import says of them.
var fileMistakes = []struct{ name, file, want string }{
	{"csv", `rule,values,setting,for
per-key,a|b,tier:pro,
per-key,a|b,x2,
per-key,c,x2,
gold,a,x2,
plain,a,x2,
per-key,d|e,tier:gold,
per-key,f|g,rubbish,
per-key,h|i,x2,-1s
per-key,j|k,x2,1us
per-key,l|%zz,x2,
per-key,m|n,x2
per-key,o|p,limits:per-key-1h=7/8,
by,free,"limits:by=1,by-1h=7",
by,pro,limits:by-1h=7/8,
`, `FILE:3: this is the identity of line 2
FILE:4: the key of rule "per-key" has 2 values, 1 given (want the header x-api-key, the header x-team)
FILE:5: no rule "gold" (want one of "per-key", "secret", "by", "plain")
FILE:6: rule "plain": the rule does not read overrides (want "overrides": true)
FILE:7: there is no tier "gold" (want one of "free", "pro", "staff")
FILE:8: "rubbish" is not an override (want block, free, a factor such as x2 or x0.5, ` +
		`from x0.001 to x1000, tier:NAME, or limits:LIMIT=UNITS)
FILE:9: for: "-1s" is not a duration (want one such as "500ms", "1m30s", "2h", "1d")
FILE:10: for: want at least 1ms, or nothing for an override without end
FILE:11: values: "%zz" is not escaped as in keys (want "%25" for "%", "%7C" for "|")
FILE:12: 3 fields (want "rule,values,setting,for")
FILE:13: there is no limit "per-key-1h" (want one of "per-key")
FILE:14: limits:by=1,by-1h=7: no tier has all of these limits
FILE:15: limit "by-1h" takes no burst (want by-1h=7)
sluice: nothing is written: the file has 13 mistakes
`},
	{"no head", "per-key,a|b,x2,\n", `FILE:1: the file does not begin with "rule,values,setting,for", ` +
		`and is no JSON lines
sluice: nothing is written: the file has 1 mistake
`},
	{"a quote", "rule,values,setting,for\nper-key,\"a\"b,x2,\n", `FILE:2: ` +
		`extraneous or missing " in quoted-field (later lines are not read)
sluice: nothing is written: the file has 1 mistake
`},
	{"json", `{"rule": "per-key", "values": ["a", "b"], "setting": "x2"}

{"rule": "per-key", "values": ["a", "b"], "settings": "x2"}
{"rule": "per-key", "values": ["c", "d"], "identity": "v1|c|d", "setting": "x2"}
{"rule": "per-key", "values": ["e", "f"], "setting": "x2"} {}
`, `FILE:3: unknown field "settings" (want an object such as {"rule": "per-key", "values": ["a"], ` +
		`"setting": "x2", "for": "2h"})
FILE:4: "identity" stands in place of "values" (want one of the two)
FILE:5: there is more than one object in a line
sluice: nothing is written: the file has 3 mistakes
`},
}

// TestImportOfMistakes: each is listed with its line, and nothing is written.
func TestImportOfMistakes(t *testing.T) {
	t.Parallel()
	c := newContracts(t)
	for _, tc := range fileMistakes {
		file := write(t, "contracts", tc.file)
		r := c.run("override", "import", file)
		testenv.Same(t, tc.name+": exit code", r.code, console.Refused)
		testenv.Same(t, tc.name, strings.ReplaceAll(r.errors, file, "FILE"), tc.want)
		testenv.Same(t, tc.name+": keys", len(c.keys()), 0)
		var listed struct{ Mistakes []struct{ Line int } }
		if err := json.Unmarshal([]byte(c.run("override", "diff", file, "-o", "json").out), &listed); err != nil {
			t.Fatal(err)
		}
		testenv.Same(t, tc.name+": lines in JSON", len(listed.Mistakes), strings.Count(tc.want, "FILE:"))
	}
}

// TestImportOfMany sets a hundred thousand contracts, pipelined: some hundred round trips.
func TestImportOfMany(t *testing.T) {
	t.Parallel()
	c := newContracts(t)
	var file bytes.Buffer
	file.WriteString("rule,values,setting,for\n")
	const many = 100_000
	for i := range many {
		fmt.Fprintf(&file, "per-key,customer-%d|team,limits:per-key=%d/%d,\n", i, 10+i%1000, 20+i%1000)
	}
	name := filepath.Join(t.TempDir(), "many.csv")
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	c.want(console.Done, "100000 added, 0 changed, 0 removed, 0 the same\n", "override", "import", name)
	testenv.Same(t, "keys", c.server.Client().DBSize(context.Background()).Val(), many)
	testenv.Same(t, "the last one", c.set("per-key|v1|customer-99999|team"), "limits:per-key=1009/1019")
	c.want(console.Done, "0 added, 0 changed, 0 removed, 100000 the same\n",
		"override", "diff", name, "--prune", "--step", "10000")
}

// TestGetUnderOverrides: get shows the limits that an override makes, and whether it is valid.
func TestGetUnderOverrides(t *testing.T) {
	t.Parallel()
	c := newContracts(t)
	client := c.server.Client()
	for _, tc := range []struct {
		set  string
		want []string
		not  string
	}{
		{
			"tier:pro",
			[]string{"gcra 100 in 1m", "fixed_window 5000 in 1h", `Override: "tier:pro", without end.`},
			"gcra 10 in",
		},
		{"tier:staff", []string{"It has no limits."}, "gcra"},
		{
			"limits:per-key=77/9",
			[]string{"gcra 77 in 1m, burst 9", `Override: "limits:per-key=77/9", without end.`},
			"gcra 10 in",
		},
		{
			"tier:gold",
			[]string{"gcra 10 in 1m", `Override: "tier:gold", without end, which is not valid and is ignored.`},
			"gcra 77",
		},
	} {
		client.Set(context.Background(), "rl:{per-key|v1|a|b}:override", tc.set, 0)
		r := c.run("get", "per-key", "a", "b")
		for _, want := range tc.want {
			testenv.Same(t, tc.set+": that it has "+want+" in\n"+r.out+r.errors, strings.Contains(r.out, want), true)
		}
		testenv.Same(t, tc.set+": that it has "+tc.not, strings.Contains(r.out, tc.not), false)
	}
}

// TestContractsOfAFile: explain shows what a file of contracts makes of a request's limits, and simulate
// plays by it, without Redis.
func TestContractsOfAFile(t *testing.T) {
	t.Parallel()
	const plugin = `{"redis": {"cluster": "redis"}, "rules": [{"name": "c", "key": [{"header": "x-key"}],
		"overrides": true, "limits_by": {"default": "free", "values": {
			"free": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 10, "window": "1d"}],
			"pro": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 50, "window": "1d"}]}}}]}`
	for _, tc := range []struct {
		setting  string
		explains string // APPLIES, LIMIT and the override's row
		admitted int64  // of 399
	}{
		{"", "yes, tier free; fixed_window 10 in 1d; override", 10},
		{"c,k,tier:pro,\n", "yes, tier pro; fixed_window 50 in 1d; override tier:pro", 50},
		{"c,k,limits:c=30,\n", "yes, tier free; fixed_window 30 in 1d; override limits:c=30", 30},
		{"c,k,x2.5,\n", "yes, tier free; fixed_window 25 in 1d; override x2.5", 25},
		{"c,k,free,\n", "yes, tier free; ; override free", 399},
		{"c,k,block,\n", "yes, tier free; ; override block", 0},
		{"c,k,free,2s\n", "yes, tier free; ; override free", 199 + 10},
		{"c,another,free,\n", "yes, tier free; fixed_window 10 in 1d; override", 10},
	} {
		file := write(t, "contracts.csv", "rule,values,setting,for\n"+tc.setting)
		r := execute(t, plugin, "explain", "-c", "-", "--contracts", file, "-H", "x-key: k", "http://h/")
		testenv.Same(t, tc.setting+": explain", explainedLimits(r.out), tc.explains)
		r = execute(t, plugin, "simulate", "-c", "-", "-o", "json", "--contracts", file, "--traffic",
			write(t, "traffic.yaml", "duration: 4s\nclients:\n- {rate: 100, arrivals: even, url: http://h/, "+
				"headers: {x-key: k}}\n"))
		testenv.Same(t, tc.setting+": the warnings", r.errors, "")
		testenv.Same(t, tc.setting+": admitted", decode[simulate.Report](t, r).Admitted, tc.admitted)
	}
	const want = "sluice: FILE has mistakes:\n  FILE:2: there is no tier \"gold\" (want one of \"free\", \"pro\")\n"
	file := write(t, "contracts.csv", "rule,values,setting,for\nc,k,tier:gold,\n")
	for _, command := range [][]string{{"explain", "http://h/"}, {"simulate", "--url", "http://h/"}} {
		r := execute(t, plugin, append(command, "-c", "-", "--contracts", file)...)
		testenv.Same(t, command[0]+": exit code", r.code, console.Refused)
		testenv.Same(t, command[0]+": mistakes", strings.ReplaceAll(r.errors, file, "FILE"), want)
	}
}

// explainedLimits reads one rule out of a table of explain: APPLIES, LIMIT, and the last row's LIMIT.
func explainedLimits(table string) string {
	rows := strings.Split(strings.TrimSpace(table), "\n")
	at, of := strings.Index(rows[0], "LIMIT"), strings.Index(rows[0], "KEY")
	cell := func(row, from, to int) string { return strings.TrimSpace(rows[row][from:to]) }
	limit, last := "", len(rows)-1
	if last > 1 {
		limit = cell(1, at, of)
	}
	return cell(1, strings.Index(rows[0], "APPLIES"), strings.Index(rows[0], "IDENTITY")) + "; " + limit + "; " +
		cell(last, at, of)
}
