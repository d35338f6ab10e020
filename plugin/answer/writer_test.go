package answer

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// The limits of the tests, by name.
var (
	perUser = policy("per-user", algo.Limit{Algorithm: algo.GCRA, Units: 10, WindowMicros: 1e6, Burst: 20})
	hourly  = policy("hourly", algo.Limit{Algorithm: algo.SlidingWindowCounter, Units: 1000, WindowMicros: 3600e6})
	fast    = policy("fast", algo.Limit{Algorithm: algo.FixedWindow, Units: 5, WindowMicros: 250_000})
	slots   = policy("chat", algo.Limit{Algorithm: algo.Concurrency, Units: 20, TTLMicros: 30e6})
	global  = policy("global", algo.Limit{Algorithm: algo.TokenBucket, Units: 5000, WindowMicros: 1e6})
)

func policy(name string, l algo.Limit) *Label {
	p := NewLabel(&config.Limit{Limit: l, Name: name}, false)
	return &p
}

func allowed(p *Label, remaining, resetMicros int64) Limit {
	return Limit{Label: p, Decision: algo.Decision{Allowed: true, Remaining: remaining, ResetAfterMicros: resetMicros}}
}

// calendarDay is a limit in a day of so many microseconds.
func calendarDay(micros int64) Limit {
	day := algo.Limit{Algorithm: algo.FixedWindow, Units: 5, WindowMicros: 24 * 3600e6, CalendarID: "day:Europe/Berlin"}
	l := allowed(policy("daily", day), 4, 3600e6)
	l.Decision.BeginsMicros, l.Decision.EndsMicros, l.Sized = 1e15, 1e15+micros, &day
	return l
}

func rejected(p *Label, remaining, resetMicros, retryMicros int64) Limit {
	return Limit{Label: p, Decision: algo.Decision{
		Remaining: remaining, ResetAfterMicros: resetMicros,
		RetryAfterMicros: retryMicros,
	}}
}

// fields writes headers as "name: value" lines.
func fields(headers [][2]string) []string {
	var lines []string
	for _, h := range headers {
		lines = append(lines, h[0]+": "+h[1])
	}
	return lines
}

var (
	xOnly     = config.Headers{XRateLimit: true}
	draftOnly = config.Headers{Draft: true}
	unix      = config.Headers{XRateLimit: true, ResetUnix: true}
	both      = config.Headers{XRateLimit: true, Draft: true}
)

// x is X-RateLimit's headers, and more.
func x(limit, remaining, reset int64, more ...string) []string {
	return append([]string{
		fmt.Sprint("x-ratelimit-limit: ", limit), fmt.Sprint("x-ratelimit-remaining: ", remaining),
		fmt.Sprint("x-ratelimit-reset: ", reset),
	}, more...)
}

// draft is the draft's headers, and more.
func draft(policy, limit string, more ...string) []string {
	return append([]string{"ratelimit-policy: " + policy, "ratelimit: " + limit}, more...)
}

// sized is a limit whose size came with the request.
func sized(p *Label, l algo.Limit, remaining int64) Limit {
	shown := allowed(p, remaining, 1e6)
	shown.Sized = &l
	return shown
}

// silent is a label of a rule with "headers": false.
func silent(p *Label) *Label {
	unseen := *p
	unseen.silent = true
	return &unseen
}

var (
	some  = []Limit{allowed(perUser, 19, 100_000)}
	last  = []Limit{allowed(hourly, 1, 750_000)}
	small = algo.Limit{Algorithm: algo.GCRA, Units: 2, WindowMicros: 1e6, Burst: 4}
	none  = algo.Limit{Algorithm: algo.FixedWindow, WindowMicros: 60e6}
)

// shown are the headers of responses.
var shown = []struct {
	name    string
	headers config.Headers
	limits  []Limit
	up      Upstream
	want    []string
}{
	{"x-ratelimit", xOnly, some, Upstream{}, x(20, 19, 1)},
	{"draft", draftOnly, some, Upstream{}, draft(`"per-user";q=20;w=2`, `"per-user";r=19;t=2`)},
	{"both", both, some, Upstream{}, x(20, 19, 1, draft(`"per-user";q=20;w=2`, `"per-user";r=19;t=2`)...)},
	{
		"several", both,
		[]Limit{allowed(hourly, 999, 3600e6), allowed(fast, 4, 250_000), allowed(global, 4999, 200)},
		Upstream{},
		x(5, 4, 1, draft(`"hourly";q=1000;w=3600, "fast";q=5;w=1, "global";q=5000;w=1`,
			`"hourly";r=999;t=3600, "fast";r=4;t=1, "global";r=4999;t=1`)...),
	},
	{
		"a calendar's window", draftOnly,
		[]Limit{calendarDay(25 * 3600e6)},
		Upstream{},
		draft(`"daily";q=5;w=90000`, `"daily";r=4;t=3600`),
	},
	{
		"slots", both,
		[]Limit{allowed(slots, 3, 0), allowed(global, 4999, 200)},
		Upstream{},
		x(20, 3, 0, draft(`"chat";q=20;qu="concurrent-requests", "global";q=5000;w=1`,
			`"chat";r=3, "global";r=4999;t=1`)...),
	},
	{"none configured", config.Headers{}, some, Upstream{}, nil},
	{"none applies", both, nil, Upstream{}, nil},
	{"nothing consumed", xOnly, []Limit{allowed(perUser, 20, 0)}, Upstream{}, x(20, 20, 0)},
	{"whole seconds", xOnly, []Limit{allowed(hourly, 1, 2e6)}, Upstream{}, x(1000, 1, 2)},
	{"rounded up", xOnly, []Limit{allowed(hourly, 1, 2e6+1)}, Upstream{}, x(1000, 1, 3)},
	{"unix", unix, last, Upstream{}, x(1000, 1, 1700000001)},
	{"unix, rounded up", unix, []Limit{allowed(hourly, 1, 750_001)}, Upstream{}, x(1000, 1, 1700000002)},

	// An upstream that rejected the request by limits of its own keeps what it says.
	{
		"no limits of the upstream's", both, last,
		Upstream{},
		x(1000, 1, 1, draft(`"hourly";q=1000;w=3600`, `"hourly";r=1;t=1`)...),
	},
	{
		"the upstream's X-RateLimit", both, last,
		Upstream{XRateLimit: true},
		draft(`"hourly";q=1000;w=3600`, `"hourly";r=1;t=1`),
	},
	{
		"the upstream's lists", both, last,
		Upstream{Policy: `"inner";q=5;w=1`, Limit: `"inner";r=0;t=9`},
		x(1000, 1, 1, draft(`"inner";q=5;w=1, "hourly";q=1000;w=3600`, `"inner";r=0;t=9, "hourly";r=1;t=1`)...),
	},

	// A limit whose size came with the request is shown as it is for this request, and nearness is of that.
	{
		"sized", both,
		[]Limit{sized(perUser, small, 3)},
		Upstream{},
		x(4, 3, 1, draft(`"per-user";q=4;w=2`, `"per-user";r=3;t=2`)...),
	},
	{
		"nearer than its label is", both,
		[]Limit{allowed(fast, 4, 1e6), sized(perUser, small, 3)},
		Upstream{},
		x(4, 3, 1, draft(`"fast";q=5;w=1, "per-user";q=4;w=2`, `"fast";r=4;t=1, "per-user";r=3;t=2`)...),
	},
	{
		"a size of 0", both,
		[]Limit{allowed(fast, 1, 1e6), sized(perUser, none, 0)},
		Upstream{},
		x(0, 0, 1, draft(`"fast";q=5;w=1, "per-user";q=0;w=60`, `"fast";r=1;t=1, "per-user";r=0`)...),
	},

	// Clients see nothing of a rule with "headers": false.
	{"silent", both, []Limit{allowed(silent(fast), 1, 1e6)}, Upstream{}, nil},
	{
		"silent, beside another rule", both,
		[]Limit{allowed(silent(fast), 0, 1e6), allowed(hourly, 9, 5e6)},
		Upstream{},
		x(1000, 9, 5, draft(`"hourly";q=1000;w=3600`, `"hourly";r=9;t=5`)...),
	},
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	for _, tt := range shown {
		w := New(&config.Config{Headers: tt.headers}, 1)
		testenv.SameList(t, tt.name, fields(w.Headers(tt.limits, 1_700_000_000_250_000, tt.up)), tt.want)
	}
}

func TestNearest(t *testing.T) {
	t.Parallel()
	big := policy("big", algo.Limit{Algorithm: algo.FixedWindow, Units: algo.MaxUnits, WindowMicros: 1e6})
	big1 := policy("big1", algo.Limit{Algorithm: algo.FixedWindow, Units: algo.MaxUnits - 1, WindowMicros: 1e6})
	for _, tt := range []struct {
		name     string
		limits   []Limit
		rejected bool
		want     *Label
	}{
		{"smallest ratio, not smallest remaining", []Limit{allowed(fast, 4, 0), allowed(hourly, 10, 0)}, false, hourly},
		{"first of equals", []Limit{allowed(hourly, 200, 5), allowed(fast, 1, 9)}, false, hourly},
		{"first of equals, the other way", []Limit{allowed(fast, 1, 9), allowed(hourly, 200, 5)}, false, fast},
		{"exact", []Limit{allowed(big, algo.MaxUnits-1, 0), allowed(big1, algo.MaxUnits-2, 0)}, false, big1},
		{"exact, the other way", []Limit{allowed(big1, algo.MaxUnits-2, 0), allowed(big, algo.MaxUnits-1, 0)}, false, big1},
		{"one that rejected", []Limit{allowed(fast, 0, 9), rejected(hourly, 5, 9, 9)}, true, hourly},
		{
			"nearest that rejected",
			[]Limit{rejected(fast, 2, 9, 9), allowed(perUser, 0, 9), rejected(hourly, 5, 9, 1)},
			true, hourly,
		},
		{
			"longest wait of equals",
			[]Limit{rejected(fast, 0, 9, 5), rejected(hourly, 0, 9, 7), rejected(global, 0, 9, 6)},
			true, hourly,
		},
		{
			"no wait helps",
			[]Limit{rejected(fast, 0, 9, 5), rejected(hourly, 0, 9, algo.Never), rejected(global, 0, 9, 6)},
			true, hourly,
		},
		{
			"first of equals that wait equally long",
			[]Limit{rejected(fast, 0, 9, algo.Never), rejected(hourly, 0, 9, algo.Never)},
			true, fast,
		},
	} {
		if got := nearest(tt.limits, tt.rejected); got == nil || got.Label != tt.want {
			t.Errorf("%s: nearest is %+v, want %s", tt.name, got, tt.want.Name)
		}
	}
	if got := nearest(nil, false); got != nil {
		t.Errorf("nearest of none is %+v", got)
	}
}

func TestPolicyWindow(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit algo.Limit
		want  string
	}{
		{algo.Limit{Algorithm: algo.GCRA, Units: 10, WindowMicros: 1e6, Burst: 20}, `"p";q=20;w=2`},
		{algo.Limit{Algorithm: algo.GCRA, Units: 10, WindowMicros: 1e6, Burst: 21}, `"p";q=21;w=3`},
		{algo.Limit{Algorithm: algo.TokenBucket, Units: 10, WindowMicros: 60e6}, `"p";q=10;w=60`},
		{algo.Limit{Algorithm: algo.LeakyBucket, Units: 100, WindowMicros: 60e6, Burst: 1}, `"p";q=1;w=1`},
		{algo.Limit{Algorithm: algo.LeakyBucket, Units: algo.MaxUnits, WindowMicros: 1000, Burst: 1}, `"p";q=1;w=1`},
		{algo.Limit{Algorithm: algo.FixedWindow, Units: 1, WindowMicros: 1000}, `"p";q=1;w=1`},
		{algo.Limit{Algorithm: algo.SlidingWindowLog, Units: 7, WindowMicros: 1500e3}, `"p";q=7;w=2`},
		{
			algo.Limit{Algorithm: algo.FixedWindow, Units: algo.MaxUnits, WindowMicros: algo.MaxWindowMicros},
			`"p";q=1000000000;w=31622400`,
		},
	} {
		if got := policy("p", tt.limit).member; got != tt.want {
			t.Errorf("policy of %+v is %s, want %s", tt.limit, got, tt.want)
		}
	}
}

// member is a String with Integer parameters of one letter (RFC 9651, sections 3.3.1, 3.3.3 and 3.1.2), before another.
var member = regexp.MustCompile(`^"((?:[ !#-\[\]-~]|\\["\\])*)"(?:;[a-z]=[0-9]{1,15})*, `)

// FuzzNames reads the fields back, whatever the policies are named.
func FuzzNames(f *testing.F) {
	f.Add("per-user", "b")
	f.Add(`a"b\c`, `","`)
	f.Add("caf\xc3\xa9\x00\xff\n", "")
	limit := algo.Limit{Algorithm: algo.FixedWindow, Units: 5, WindowMicros: 1e6}
	f.Fuzz(func(t *testing.T, a, b string) {
		w := New(&config.Config{Headers: both}, 1)
		limits := []Limit{rejected(policy(a, limit), 1, 2e6, 3e6), rejected(policy(b, limit), 4, 5e6, 6e6)}
		for _, h := range w.Headers(limits, 0, Upstream{}) {
			if !strings.HasPrefix(h[0], "ratelimit") {
				continue
			}
			rest := h[1] + ", "
			for i, want := range []string{a, b} {
				next := member.FindStringSubmatch(rest)
				if next == nil {
					t.Fatalf("%s: %q: no name at %q", h[0], h[1], rest)
				}
				rest = rest[len(next[0]):]
				name := strings.NewReplacer(`\"`, `"`, `\\`, `\`).Replace(next[1])
				printable := !strings.ContainsFunc(want, func(r rune) bool { return r < ' ' || r > '~' })
				if printable && name != want {
					t.Errorf("name %d of %q is %q, want %q", i, h[1], name, want)
				}
			}
			testenv.Same(t, "what follows two names", rest, "")
		}
		var problem struct {
			Violated []string `json:"violated-policies"`
		}
		if err := json.Unmarshal([]byte(w.Refuse(&Rejection{Limits: limits}).Body), &problem); err != nil {
			t.Fatal(err)
		}
		if utf8.ValidString(a) && utf8.ValidString(b) {
			testenv.SameList(t, "violated policies", problem.Violated, []string{a, b})
		}
	})
}

// TestUnit: what a limit counts is "qu" of its policy, but for requests, which are the default.
func TestUnit(t *testing.T) {
	t.Parallel()
	for unit, want := range map[string]string{"": `"p";q=5;w=1`, "tokens": `"p";q=5;w=1;qu="tokens"`} {
		l := config.Limit{Limit: algo.Limit{Algorithm: algo.FixedWindow, Units: 5, WindowMicros: 1e6}, Name: "p", Unit: unit}
		label := NewLabel(&l, false)
		sized := Limit{Label: &label, Sized: &l.Limit}
		w := New(&config.Config{Headers: draftOnly}, 1)
		testenv.Same(t, "the policy", label.member, want)
		testenv.Same(t, "the policy of a size", w.Headers([]Limit{sized}, 0, Upstream{})[0][1], want)
		testenv.Same(t, "the quota", w.Report(&Report{Limits: []Limit{{Label: &label}}}).Body,
			`{"limits":[{"name":"p","limit":5,"remaining":0,"reset":0,"window":1,"unit":"`+label.unit+`"}]}`)
	}
}
