package simulate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// run simulates a configuration on a description of traffic.
func run(t *testing.T, plugin, traffic string, o Options) *Report {
	t.Helper()
	cfg, err := config.Parse([]byte(plugin))
	testenv.OK(t, err)
	rules, err := rule.Compile(cfg, nil)
	testenv.OK(t, err)
	described, err := ParseTraffic([]byte(traffic))
	testenv.OK(t, err)
	o.Envoys, o.Workers = max(1, o.Envoys), max(1, o.Workers)
	if o.RoundTripMicros == 0 {
		o.RoundTripMicros = 500
	}
	return Run(cfg, rules, Generate(described, o.Seed), o)
}

// one is a configuration of one limit for each x-key.
func one(top, limit string) string {
	return `{` + top + `"rules": [{"name": "r", "key": [{"header": "x-key"}], "limits": [` + limit + `]}]}`
}

const (
	inRedis = `"redis": {"cluster": "redis"}, `
	second  = 1_000_000
)

// limitsHeld are limits of 100 a second, and how many of 20,000 requests in 10 s each admits.
var limitsHeld = []struct {
	name, top, limit string
	most             int64 // in any window of an identity
	least            int64 // admitted of all
}{
	{name: "gcra", top: inRedis, limit: `{"algorithm": "gcra", "limit": 100, "window": "1s"}`, most: 200, least: 3000},
	{
		name: "sliding_window_log", top: inRedis, limit: `{"algorithm": "sliding_window_log", "limit": 100, "window": "1s"}`,
		most: 100, least: 2900,
	},
	{
		name: "sliding_window_counter", top: inRedis,
		limit: `{"algorithm": "sliding_window_counter", "limit": 100, "window": "1s"}`, most: 200, least: 2800,
	},
	{
		name: "fixed_window", top: inRedis, limit: `{"algorithm": "fixed_window", "limit": 100, "window": "1s"}`,
		most: 200, least: 3000,
	},
	{
		name: "a day", top: inRedis,
		limit: `{"algorithm": "fixed_window", "limit": 1000, "window": "day", "timezone": "Europe/Berlin"}`,
		most:  1000, least: 3000,
	},
	{
		name: "a day, leased", top: inRedis,
		limit: `{"algorithm": "fixed_window", "limit": 1000, "window": "day", "lease": {"units": 5, "ttl": "50ms"}}`,
		most:  1000, least: 3000,
	},
	{
		name: "a day in the embedded store", limit: `{"algorithm": "fixed_window", "limit": 1000, "window": "day"}`,
		most: 1000, least: 3000,
	},
	{
		name: "leaky_bucket that queues", top: inRedis,
		limit: `{"algorithm": "leaky_bucket", "limit": 100, "window": "1s", "overflow": "queue"}`, most: 200, least: 3000,
	},
	{
		name: "leases", top: inRedis,
		limit: `{"algorithm": "fixed_window", "limit": 100, "window": "1s", "lease": {"units": 5, "ttl": "50ms"}}`,
		most:  200, least: 2000,
	},
	{
		name: "the embedded store", limit: `{"algorithm": "sliding_window_log", "limit": 100, "window": "1s"}`,
		most: 100, least: 2900,
	},
}

func TestLimitsHold(t *testing.T) {
	t.Parallel()
	const traffic = `{duration: 10s, clients: [{name: a, rate: 2000, identities: 3, zipf: 1, url: "http://h/", headers: ` +
		`{x-key: "k{n}"}}]}`
	for _, c := range limitsHeld {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			envoys := 4
			if c.top == "" {
				envoys = 1
			}
			r := run(t, one(c.top, c.limit), traffic, Options{Envoys: envoys, Workers: 2})
			testenv.Within(t, "requests", r.Requests, 19_000, 21_000)
			testenv.Within(t, "the most admitted in a window", r.Rules[0].Limits[0].MostInWindow, 1, c.most)
			testenv.Within(t, "admitted", r.Admitted, c.least, r.Requests)
			testenv.Same(t, "requests that have an end", r.Admitted+r.Rejected+r.Refused, r.Requests)
		})
	}
}

var away = []Period{{3 * second, 6 * second}}

// TestRedisFails: Redis is away, or hangs, for 3 of 9 seconds.
func TestRedisFails(t *testing.T) {
	t.Parallel()
	const (
		traffic = `{duration: 9s, clients: [{name: a, rate: 300, arrivals: even, url: "http://h/", headers: {x-key: k}}]}`
		limit   = `{"algorithm": "gcra", "limit": 100, "window": "1s"}`
	)
	fails := func(t *testing.T, mode string, o Options) *Report {
		o.Envoys, o.Workers = 1, 2
		r := run(t, one(inRedis+`"failure": {"mode": "`+mode+`"}, `, limit), traffic, o)
		if len(r.Log) == 0 || !strings.Contains(r.Log[len(r.Log)-1].Text, "redis is back") {
			t.Errorf("%s: log %v, want its end to say that Redis is back", mode, r.Log)
		}
		return r
	}
	r := fails(t, "allow", Options{Away: away})
	testenv.Within(t, "allow: undecided", r.Undecided, 800, 1200)
	testenv.Same(t, "allow: failures", r.Redis.Failures, r.Undecided)
	testenv.Same(t, "allow: how often the breaker opened", r.Redis.BreakerOpenings, 2)
	r = fails(t, "deny", Options{Away: away})
	testenv.Within(t, "deny: refused", r.Refused, 800, 1200)
	testenv.Same(t, "deny: undecided", r.Undecided, 0)
	r = fails(t, "local", Options{Away: away})
	testenv.Within(t, "local: decided locally", r.Local, 800, 1200)
	testenv.Within(t, "local: the most in a window", r.Rules[0].Limits[0].MostInWindow, 0, 600)
	r = fails(t, "allow", Options{Hangs: away})
	testenv.Within(t, "hangs: undecided", r.Undecided, 800, 1200)
	testenv.Within(t, "hangs: p99 in us", r.WaitP99Micros, 0, 80_000)
}

func TestRetries(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		retry              string
		admitted, requests int64
	}{
		{retry: "never", admitted: 10, requests: 30},
		{retry: "after", admitted: 30, requests: 60}, // the rest come in the next windows
		{retry: "at once", admitted: 10, requests: 70},
	} {
		traffic := `{duration: 5s, clients: [{name: a, burst: {size: 30, every: 60s}, retry: ` + c.retry +
			`, url: "http://h/", headers: {x-key: k}}]}`
		r := run(t, one(inRedis, `{"algorithm": "fixed_window", "limit": 10, "window": "1s", "anchor": "first_request"}`),
			traffic, Options{})
		testenv.Same(t, c.retry+": admitted", r.Admitted, c.admitted)
		testenv.Same(t, c.retry+": requests", r.Requests, c.requests)
	}
}

func TestLeasesSpareRedis(t *testing.T) {
	t.Parallel()
	const traffic = `{duration: 2s, clients: [{name: a, rate: 10000, url: "http://h/", headers: {x-key: k}}]}`
	limit := `{"algorithm": "fixed_window", "limit": 1000000, "window": "1s"%s}`
	without := run(t, one(inRedis, fmt.Sprintf(limit, "")), traffic, Options{})
	with := run(t, one(inRedis, fmt.Sprintf(limit, `, "lease": {"units": 100, "ttl": "100ms"}`)), traffic, Options{})
	testenv.Within(t, "commands a request", without.Redis.CommandsARequest, 1, 2)
	testenv.Within(t, "commands a request with leases", with.Redis.CommandsARequest, 0, 0.05)
}

// A lease without units helps buckets of seconds, too.
func TestLeasesOfBucketsOfSeconds(t *testing.T) {
	t.Parallel()
	const limit = `{"algorithm": "gcra", "limit": 2000, "window": "1s", "burst": 4000, "lease": {"ttl": "200ms"}}`
	for _, tc := range []struct {
		rate, workers int
		most          float64 // commands a request
	}{{318, 1, 0.04}, {318, 2, 0.05}, {318, 4, 0.085}, {1500, 4, 0.04}} {
		traffic := fmt.Sprintf(`{duration: 20s, clients: [{name: a, rate: %d, url: "http://h/", headers: {x-key: k}}]}`,
			tc.rate)
		r := run(t, one(inRedis, limit), traffic, Options{Workers: tc.workers})
		testenv.Within(t, fmt.Sprintf("%+v: commands a request", tc), r.Redis.CommandsARequest, 0, tc.most)
		testenv.Same(t, fmt.Sprintf("%+v: admitted", tc), r.Admitted, r.Requests)
	}
}

func TestSeed(t *testing.T) {
	t.Parallel()
	const traffic = `{duration: 1s, clients: [{name: a, rate: 500, identities: 9, zipf: 1, url: "http://h/", headers: ` +
		`{x-key: "{n}"}}]}`
	limit := one(inRedis, `{"algorithm": "gcra", "limit": 10, "window": "1s"}`)
	results := map[string]bool{}
	for _, seed := range []uint64{1, 1, 2} {
		text, err := json.Marshal(run(t, limit, traffic, Options{Seed: seed, Envoys: 2}))
		testenv.OK(t, err)
		results[string(text)] = true
	}
	testenv.Same(t, "different results of two seeds", len(results), 2)
}

func TestShardsShareTheWork(t *testing.T) {
	t.Parallel()
	const traffic = `{duration: 100ms, clients: [{name: a, rate: 400000, identities: 1000, url: "http://h/", headers: ` +
		`{x-key: "{n}"}}]}`
	limit := one(`"redis": {"cluster": "redis", "timeout": "5s"}, `,
		`{"algorithm": "gcra", "limit": 1000, "window": "1s"}`)
	alone := run(t, limit, traffic, Options{Workers: 8})
	eight := run(t, limit, traffic, Options{Workers: 8, Shards: 8})
	testenv.Within(t, "one core, where requests queue: p99 in us", alone.WaitP99Micros, 20_000, 1e9)
	testenv.Within(t, "eight cores, where none does: p99 in us", eight.WaitP99Micros, 0, 5_000)
	// What one check costs that comes alone, or nearly so.
	perCheck := float64(readNanos+int64(3.8*callNanos)) / 1e9
	want := eight.Redis.CommandsASecond * perCheck
	testenv.Within(t, "busy cores", eight.Redis.Cores, 0.95*want, 1.05*want)
}

func TestTrafficIsChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, traffic, error string }{
		{"no duration", `clients: [{rate: 1, url: "http://h/"}]`, `the traffic has no "duration"`},
		{"no clients", `duration: 1s`, `the traffic has no "clients"`},
		{"an unknown field", `duration: 1s` + "\nrat: 1", "field rat not found"},
		{"no rate", `{duration: 1s, clients: [{url: "http://h/"}]}`, `clients[0]: "rate" is missing`},
		{"no url", `{duration: 1s, clients: [{rate: 1}]}`, `clients[0]: "url" is missing`},
		{"a bad url", `{duration: 1s, clients: [{rate: 1, url: h}]}`, `"h" is not a URL`},
		{"a bad retry", `{duration: 1s, clients: [{rate: 1, url: "http://h/", retry: soon}]}`, `retry: "soon" is unknown`},
		{"a bad duration", `duration: soon`, `line 1: "soon" is not a duration`},
		{"a burst without end", `{duration: 1s, clients: [{burst: {size: 3}, url: "http://h/"}]}`, "burst: want"},
		{
			"a small network", `{duration: 1s, clients: [{rate: 1, url: "http://h/", client_ip: 10.0.0.1/32}]}`,
			"has no 1-th address",
		},
	} {
		if _, err := ParseTraffic([]byte(c.traffic)); err == nil || !strings.Contains(err.Error(), c.error) {
			t.Errorf("%s: error %v, want one with %s", c.name, err, c.error)
		}
	}
}

func TestReadLog(t *testing.T) {
	t.Parallel()
	lines := []string{
		`[2026-01-02T03:04:05.250Z] "GET /api/a?b=1 HTTP/1.1" 200 - 0 5 1 0 "192.0.2.7" "curl/8" "id" ` +
			`"h.example.com" "10.0.0.1:80"`,
		`{"start_time": "2026-01-02T03:04:05.000Z", "method": "POST", "path": "/x", "authority": "h", ` +
			`"client_ip": "192.0.2.8:999", "x_api_key": "k", "bytes": 3}`,
		"not a request",
		strings.Repeat("x", 3<<20),
		"",
		`[2026-01-02T03:04:06Z] "GET /y HTTP/2" 200`,
		"",
	}
	log, err := ReadLog(strings.NewReader(strings.Join(lines, "\n")), nil)
	testenv.OK(t, err)
	testenv.Same(t, "lines that are no requests", log.Skipped, 2)
	testenv.Same(t, "its length in us", log.durationMicros(), second+1)
	for i, want := range []struct {
		at                            int64
		method, path, host, key, addr string
	}{
		{0, "POST", "/x", "h", "k", "192.0.2.8:40000"},
		{250_000, "GET", "/api/a?b=1", "h.example.com", "", "192.0.2.7:40000"},
		{second, "GET", "/y", "unknown", "", ""},
	} {
		r := log.next()
		method, _ := r.http.Header(":method")
		path, _ := r.http.Header(":path")
		host, _ := r.http.Header(":authority")
		key, _ := r.http.Header("x-api-key")
		addr, _ := r.http.Property([]string{"source", "address"})
		got := fmt.Sprint(r.atMicros, method, path, host, key, string(addr))
		if want := fmt.Sprint(want.at, want.method, want.path, want.host, want.key, want.addr); got != want {
			t.Errorf("request %d: %s, want %s", i, got, want)
		}
	}
	if log.next() != nil {
		t.Error("a fourth request")
	}
	if _, err := ReadLog(strings.NewReader("nothing\n"), nil); err == nil {
		t.Error("no error for a file that is not an access log")
	}
}

// TestLogChanges plays a log that is cut off after it was read.
func TestLogChanges(t *testing.T) {
	t.Parallel()
	const line = `[2026-01-02T03:04:05Z] "GET /y HTTP/2" 200` + "\n"
	file, err := os.Create(filepath.Join(t.TempDir(), "access.log"))
	testenv.OK(t, err)
	defer file.Close()
	if _, err := file.WriteString(line + line); err != nil {
		t.Fatal(err)
	}
	log, err := ReadLog(file, nil)
	testenv.OK(t, err)
	testenv.OK(t, file.Truncate(int64(len(line))))
	testenv.Same(t, "a first request", log.next() != nil, true)
	testenv.Same(t, "a second one", log.next() != nil, false)
	testenv.SameError(t, "the error", log.Err, io.EOF)
}

func TestPictures(t *testing.T) {
	t.Parallel()
	const traffic = `{duration: 4s, clients: [{name: "<a>", rate: 300, url: "http://h/", headers: {x-key: k}}]}`
	r := run(t, one(inRedis, `{"algorithm": "gcra", "limit": 100, "window": "1s"}`), traffic,
		Options{Away: []Period{{0, second}}})
	picture := r.SVG()
	testenv.WellFormed(t, "the picture", picture)
	for _, class := range []string{"admitted", "undecided", "rejected"} {
		if !bytes.Contains(picture, []byte(`<path class="`+class+`"`)) {
			t.Errorf("the picture does not show what was %s", class)
		}
	}
	page, err := r.HTML([][][]string{{{"<HEAD>"}, {"<cell>"}}})
	if err != nil || !bytes.Contains(page, []byte("&lt;cell&gt;")) {
		t.Errorf("the page: %v, %s", err, page)
	}
}

// TestConstantsAreMeasured holds the constants to what docs/algorithms.md says was
// measured, within 10 %: runs differ by less, and each of them writes that page.
func TestConstantsAreMeasured(t *testing.T) {
	t.Parallel()
	text := testenv.File(t, "docs/algorithms.md")
	number := regexp.MustCompile(`[0-9.]+`)
	found := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 8 || !strings.Contains(cells[1], "](#") {
			continue
		}
		a, ok := algo.ParseAlgorithm(strings.Trim(strings.Split(cells[1], "]")[0], " [`"))
		if !ok {
			continue
		}
		found++
		limit := &algo.Limit{Algorithm: a}
		bounds := func(cell string) (low, high float64) {
			numbers := number.FindAllString(cell, -1)
			low, _ = strconv.ParseFloat(numbers[0], 64)
			high, _ = strconv.ParseFloat(numbers[min(1, len(numbers)-1)], 64)
			return low, high
		}
		low, high := bounds(cells[4])
		if a == algo.SlidingWindowLog || a == algo.Concurrency { // with one unit, then for each more
			high = low
		}
		bytes := float64(bytesOf(limit, algo.State{0, 0, 1}))
		testenv.Within(t, a.String()+": bytes", bytes, 0.9*low, 1.1*high)
		low, high = bounds(cells[5])
		testenv.Within(t, a.String()+": cost", relative[a], 0.9*low, 1.1*high)
	}
	testenv.Same(t, "algorithms in the table", found, len(algo.Algorithms()))
}

// A log costs what its requests do: the state counts them behind their times.
func TestBytesOfALog(t *testing.T) {
	t.Parallel()
	limit := algo.Limit{Algorithm: algo.SlidingWindowLog, Units: 100, WindowMicros: second}
	plan, err := algo.NewPlan([]algo.Limit{limit})
	testenv.OK(t, err)
	states, out := make([]algo.State, 1), make([]algo.Decision, 1)
	for i := range int64(3) {
		plan.Decide(states, 1_790_000_000*second+i, []int64{2}, out)
	}
	testenv.Same(t, "bytes of 6 units", bytesOf(&limit, states[0]), 214+32*5)
}
