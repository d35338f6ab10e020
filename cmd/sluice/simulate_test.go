package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/cmd/sluice/simulate"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

const simulated = `{"redis": {"cluster": "redis"}, "rules": [{"name": "a", "key": [{"header": "x-key"}], "limits": [` +
	aLimit + `]}]}`

func TestSimulate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	svg, html := filepath.Join(dir, "a.svg"), filepath.Join(dir, "a.html")
	r := execute(t, simulated, "simulate", "-c", "-", "--url", "http://h/", "-H", "x-key: {n}", "--rate",
		"50", "--duration", "4s",
		"--envoys", "2", "--redis-away", "1s-2s", "--svg", svg, "--html", html)
	if r.code != console.Done {
		t.Fatal(r.errors)
	}
	for _, want := range []string{"RULE  CHECKED", "gcra 10 in 1s", "commands a second", "let pass undecided", "LOG\n"} {
		if !strings.Contains(r.out, want) {
			t.Errorf("no %q in\n%s", want, r.out)
		}
	}
	for _, name := range []string{svg, html} {
		if text, err := os.ReadFile(name); err != nil || !strings.Contains(string(text), "<svg") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestSimulateExpressions has expressions say whom a rule counts, and what it takes.
func TestSimulateExpressions(t *testing.T) {
	t.Parallel()
	const plugin = `{"rules": [{"name": "a", "match": {"expr": "request.method == 'PUT'"},
		"key": [{"expr": "request.headers['x-key']"}],
		"cost": {"expr": "5", "default": 1}, "limits": [{"algorithm": "fixed_window", "limit": 100, "window": "1d"}]}]}`
	for method, limited := range map[string]bool{"PUT": true, "GET": false} {
		r := execute(t, plugin, "simulate", "-c", "-", "-o", "json", "--url", "http://h/", "--method",
			method, "-H", "x-key: {n}",
			"--rate", "50", "--identities", "2", "--duration", "4s")
		if r.code != console.Done {
			t.Fatal(r.errors)
		}
		got := decode[simulate.Report](t, r)
		want := got.Requests
		if limited {
			want = 2 * 100 / 5
		}
		if got.Requests < 150 || got.Admitted != want {
			t.Errorf("%s: %d of %d admitted, want %d", method, got.Admitted, got.Requests, want)
		}
	}
}

func TestSimulateFiles(t *testing.T) {
	t.Parallel()
	traffic := write(t, "traffic.yaml",
		"duration: 2s\nclients:\n- {name: a, rate: 20, arrivals: even, url: http://h/, headers: {x-key: k}}\n")
	log := write(t, "access.log",
		`{"start_time": "2026-01-02T03:04:05Z", "method": "GET", "path": "/", "x-key": "k"}`+"\nnothing\n")
	for _, c := range []struct {
		name     string
		args     []string
		requests int64
		errors   string
	}{
		{"a description", []string{"--traffic", traffic}, 39, ""},
		{"an access log", []string{"--log", log}, 1, "note: 1 lines of " + log + " are not requests\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := execute(t, simulated, append([]string{"simulate", "-c", "-", "-o", "json"}, c.args...)...)
			if r.code != console.Done || r.errors != c.errors {
				t.Fatalf("exit code %d, %q", r.code, r.errors)
			}
			if got := decode[simulate.Report](t, r); got.Requests != c.requests {
				t.Errorf("%d requests, want %d", got.Requests, c.requests)
			}
		})
	}
}

// TestSimulateSaysWhyNot has rules that apply to none of the requests.
func TestSimulateSaysWhyNot(t *testing.T) {
	t.Parallel()
	const plugin = `{"rules": [
		{"name": "used", "limits": [` + aLimit + `]},
		{"name": "elsewhere", "match": {"path": "/b"}, "limits": [` + aLimit + `]},
		{"name": "keyed", "key": [{"client_ip": true}], "limits": [` + aLimit + `]},
		{"name": "free", "key": [{"constant": "c"}],
			"limits_by": {"source": {"constant": "free"}, "values": {"free": "unlimited", "pro": [` + aLimit + `]}}},
		{"name": "end", "exempt": true}, {"name": "after", "limits": [` + aLimit + `]}]}`
	log := write(t, "access.log", `{"start_time": "2026-01-02T03:04:05Z", "method": "GET", "path": "/"}`)
	for _, c := range []struct{ args, after string }{
		{"--url http://h/ --duration 1s", ""},
		{"--log " + log, "; a log has only what its format writes"},
	} {
		r := execute(t, plugin, append([]string{"simulate", "-c", "-", "-o", "json"}, strings.Fields(c.args)...)...)
		want := `note: rule "elsewhere" applied to no request: match.path does not hold` + c.after + `
note: rule "keyed" applied to no request: key[0] is absent: client_ip (--client-ip)` + c.after + `
note: rule "free" applied to no request: its tier is unlimited` + c.after + `
note: rule "after" applied to no request: it comes after the exempt rule "end", which matches` + c.after + "\n"
		if r.code != console.Done || r.errors != want {
			t.Errorf("exit code %d\n%s\nwant\n%s", r.code, r.errors, want)
		}
	}
}

// TestSimulateExample runs the first simulation of docs/cli.md, which shows what it prints.
func TestSimulateExample(t *testing.T) {
	t.Parallel()
	root := testenv.Root(t)
	page, err := os.ReadFile(filepath.Join(root, "docs/cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)\n## simulate\n```sh\nsluice " +
		"([^\n]*)\\\\\n([^\n]*)\n.*?```text\n(.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatal("no example")
	}
	var args []string
	for _, word := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(string(found[1])+string(found[2]), -1) {
		args = append(args, strings.Replace(strings.Trim(word, "'"), "envoy.yaml", filepath.Join(root, "envoy.yaml"), 1))
	}
	r := execute(t, "", args...)
	testenv.Same(t, "the exit code", r.code, console.Done)
	testenv.Same(t, "the warnings", r.errors, "")
	if r.out != string(found[3]) {
		t.Errorf("%v prints\n%s\nthe page has\n%s", args, r.out, found[3])
	}
}

// TestSimulatedOutages: an outage with the defaults goes as docs/operations.md says.
func TestSimulatedOutages(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs/operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `(--redis-[a-z]+) 10s-([0-9]+)s` \\| ([0-9,]+) \\| ([0-9.]+) s \\|$")
	rows := row.FindAllStringSubmatch(string(page), -1)
	testenv.Same(t, "the number of outages", len(rows), 4)
	config := write(t, "plugin.json", `{"redis": {"cluster": "redis"}, "failure": {"mode": "deny"}, "rules": [
		{"name": "all", "limits": [{"algorithm": "gcra", "limit": 1000000, "window": "1s"}]}]}`)
	for _, r := range rows {
		got := execute(t, "", "simulate", "-c", config, "--url", "http://h/", "--rate", "1000", "--envoys", "10",
			r[1], "10s-"+r[2]+"s")
		_, clients, _ := strings.Cut(got.out, "\nclients")
		clients, _, _ = strings.Cut(clients, "\n")
		undecided, denied := strings.Fields(clients), strings.ReplaceAll(r[3], ",", "")
		testenv.Same(t, r[0]+": 503s", undecided[len(undecided)-1], denied)
		all, err := strconv.ParseFloat(denied, 64)
		if err != nil {
			t.Fatal(err)
		}
		end, err := strconv.ParseFloat(r[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		testenv.Same(t, r[0]+": seconds", r[4], fmt.Sprintf("%.1f", all/1000-(end-10)))
	}
}

// A pool of 500 requests a second, of which each tenant is guaranteed 45. A tenant of class bulk, which may use
// half of the pool, floods it.
const (
	fleet = `{"redis": {"cluster": "redis"}, "rules": [
  {"name": "fleet", "key": [], "limits": [
    {"name": "pool", "algorithm": "gcra", "limit": 500, "window": "1s", "burst": 100,
     "ceiling": {"source": {"header": "x-priority"}, "values": {"normal": 100, "bulk": 50}, "default": "normal"}},
    {"name": "tenant", "algorithm": "gcra", "limit": 45, "window": "1s", "burst": 9,
     "per": [{"header": "x-tenant"}], "guarantee": true}]}]}
`
	fleetTraffic = `duration: 1m
clients:
- {name: tenants, rate: 360, arrivals: even, identities: 9, url: http://h/, headers: {x-tenant: "tenant-{n}"}}
- {name: flooder, rate: 2000, url: http://h/, headers: {x-tenant: flooder, x-priority: bulk}}
`
	fleetClients = `CLIENTS  REQUESTS  RETRIES  ADMITTED  429     503
tenants  21600     0        21600     0       0
flooder  120213    0        8449      111764  0
`
)

// TestSimulateFleet: tenants within their guarantees lose nothing to one that floods the pool.
func TestSimulateFleet(t *testing.T) {
	t.Parallel()
	r := execute(t, "", "simulate", "-c", write(t, "fleet.json", fleet), "--traffic", write(t, "fleet.yaml", fleetTraffic))
	testenv.Same(t, "the exit code", r.code, console.Done)
	testenv.Same(t, "the warnings", r.errors, "")
	clients, _, _ := strings.Cut(r.out, "\n\n")
	testenv.Same(t, "what becomes of the clients", clients+"\n", fleetClients)
}

// misused are flags that simulate refuses, and what it says.
var misused = []struct{ name, args, errors string }{
	{"no traffic", "", "at least one of the flags in the group [traffic log url] is required"},
	{"two kinds of traffic", "--url http://h/ --log x", "none of the others can be"},
	{"no Envoy", "--url http://h/ --envoys 0", "--envoys and --workers: want at least 1 each"},
	{"no shard", "--url http://h/ --redis-shards 0", "--redis-shards: want 1 to 16384"},
	{"too many shards", "--url http://h/ --redis-shards 1000000000", "--redis-shards: want 1 to 16384"},
	{"too many workers", "--url http://h/ --envoys 4294967296 --workers 4294967296", "100000 workers at most"},
	{
		"a rate that is not a number", "--url http://h/ --rate NaN",
		"rate: NaN is not requests a second (want a number above 0, 1e9 at most)",
	},
	{"an endless rate", "--url http://h/ --rate Inf", "rate: +Inf is not requests a second"},
	{"a negative rate", "--url http://h/ --rate -1", "rate: -1 is not requests a second"},
	{
		"too many requests", "--url http://h/ --rate 1e9 --duration 1000h",
		"these are 3.6e+15 requests with those that are sent again (want 5000000 at most",
	},
	{"more than a minute of requests", "--url http://h/ --rate 1e9 --duration 1s", "these are 1e+09 requests"},
	{"more than were asked for", "--url http://h/ --rate 10 --duration 11s --max-requests 100", "(want 100 at most"},
	{
		"attempts that make it too many", "--url http://h/ --rate 1000000 --duration 2s --retry after",
		"these are 6e+06 requests",
	},
	{"no duration", "--url http://h/ --duration 0s", `the traffic has no "duration"`},
	{
		"a negative duration", "--url http://h/ --duration -2s",
		`"-2s" is not a duration (want one such as "500ms", "1m30s", "2h", "1d")`,
	},
	{"too long a duration", "--url http://h/ --duration 99999999h", "is not a duration"},
	{"an exponent that is not a number", "--url http://h/ --zipf NaN", "zipf: NaN is not an exponent (want 0 to 100)"},
	{"an endless exponent", "--url http://h/ --zipf Inf --identities 2", "zipf: +Inf is not an exponent"},
	{
		"too many clients", "--url http://h/ --identities 1000000000000",
		"identities: 1000000000000 are too many or too few",
	},
	{
		"a negative round trip", "--url http://h/ --round-trip -5s",
		`invalid argument "-5s" for "--round-trip" flag: "-5s" is not a duration`,
	},
	{"a round trip of hours", "--url http://h/ --round-trip 2h", "--round-trip: want 1m0s at most"},
	{"no period", "--url http://h/ --redis-away 3s", `--redis-away: "3s" is not a period`},
	{"a period backwards", "--url http://h/ --redis-hangs 3s-2s", `--redis-hangs: "3s-2s" is not a period`},
	{"no URL", "--url h", `"h" is not a URL`},
	{"no header", "--url http://h/ -H x", `"x" is not a header`},
	{"no file", "--traffic /nowhere", "open /nowhere"},
}

func TestSimulateRefuses(t *testing.T) {
	t.Parallel()
	for _, c := range misused {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expectMisused(t, c.args, c.errors)
		})
	}
}

func TestSimulateRefusesTraffic(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, traffic, errors string }{
		{
			"a rate that is not a number", "duration: 1s\nclients: [{rate: .nan, url: http://h/}]",
			"clients[0]: rate: NaN is not",
		},
		{
			"bursts without end", "duration: 1h\nclients: [{burst: {size: 1000000, every: 1us}, url: http://h/}]",
			"these are 3.6e+15 requests",
		},
		{
			"attempts without end", "duration: 1s\nclients: [{rate: 1, attempts: 1001, url: http://h/}]",
			"attempts: 1001 (want 1 to 1000)",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			expectMisused(t, "--traffic "+write(t, "traffic.yaml", c.traffic), c.errors)
		})
	}
}

// expectMisused wants simulate to refuse its flags.
func expectMisused(t *testing.T, args, errors string) {
	t.Helper()
	r := execute(t, simulated, append([]string{"simulate", "-c", "-"}, strings.Fields(args)...)...)
	testenv.Same(t, "the exit code", r.code, console.Misused)
	if !strings.Contains(r.errors, errors) {
		t.Errorf("errors %s, want %s", r.errors, errors)
	}
}
