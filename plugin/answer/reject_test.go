package answer

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// blocked is a limit of a rule that blocks for so long.
func blocked(p *Label, left int64) Limit {
	l := rejected(p, 0, max(left, 0), left)
	l.Blocked = true
	return l
}

// blocks is a rejection by a block that lasts for so long.
func blocks(left int64, limits ...Limit) Rejection {
	return Rejection{Limits: limits, Blocked: true, LeftMicros: left, AtMicros: 1_700_000_000_000_000}
}

func by(limits ...Limit) Rejection { return Rejection{Limits: limits} }

func responding(r config.Response) config.Config { return config.Config{Response: &r} }

var (
	quick    = by(rejected(fast, 0, 9, 9))
	quickly  = "Limit exceeded: fast. Retry after 1 second."
	isFast   = []string{"fast"}
	shows    = config.Config{Headers: both}
	quoted   = policy(`a "b"`, algo.Limit{Algorithm: algo.FixedWindow, Units: 5, WindowMicros: 1e6})
	ofDesign = config.Response{
		Status: 429, ContentType: "application/json", HasBody: true, Body: `{"error":"slow down"}`,
		Headers: [][2]string{{"x-reason", "quota"}},
	}
)

const isProblem = "content-type: application/problem+json"

// answers are refused requests, and what their clients get.
var answers = []struct {
	name     string
	cfg      config.Config
	r        Rejection
	status   uint32
	headers  []string
	detail   string
	violated []string // policies
	body     string   // "": the problem's
}{
	{
		"three limits", shows,
		by(allowed(perUser, 20, 0), rejected(hourly, 0, 3500e6, 2_000_001), rejected(fast, 1, 250_000, 10)), 429,
		x(1000, 0, 3500, draft(`"per-user";q=20;w=2, "hourly";q=1000;w=3600, "fast";q=5;w=1`,
			`"per-user";r=20;t=2, "hourly";r=0;t=3, "fast";r=1;t=1`, "retry-after: 3", isProblem)...),
		"Limit exceeded: hourly, fast. Retry after 3 seconds.",
		[]string{"hourly", "fast"},
		`{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
			`"title":"Too Many Requests","status":429,` +
			`"detail":"Limit exceeded: hourly, fast. Retry after 3 seconds.",` +
			`"violated-policies":["hourly","fast"]}`,
	},
	// No wait is known until a slot is given back, and no wait helps a cost above the limit.
	{
		"slots", shows, by(rejected(slots, 0, 0, 1e6)), 429,
		x(20, 0, 0, draft(`"chat";q=20;qu="concurrent-requests"`, `"chat";r=0`, "retry-after: 1", isProblem)...),
		"Limit exceeded: chat. Retry after 1 second.",
		[]string{"chat"},
		"",
	},
	{
		"a cost above the slots", shows, by(rejected(slots, 0, 0, algo.Never)), 429,
		x(20, 0, 0, draft(`"chat";q=20;qu="concurrent-requests"`, `"chat";r=0`, isProblem)...),
		"Limit exceeded: chat. The request costs more than can be allowed at once, so waiting does not help.",
		[]string{"chat"},
		"",
	},
	{
		"a name in quotes",
		config.Config{Headers: xOnly},
		by(rejected(quoted, 0, 1, 2e6)), 429,
		x(5, 0, 1, "retry-after: 2", isProblem), `Limit exceeded: a "b". Retry after 2 seconds.`,
		[]string{`a "b"`},
		"",
	},
	{
		"told as Envoy's own filter tells",
		config.Config{EnvoyRateLimited: true},
		quick, 429,
		[]string{"retry-after: 1", "x-envoy-ratelimited: true", isProblem},
		quickly, isFast, "",
	},

	// A configured response replaces what it gives.
	{
		"response of the design", responding(ofDesign), quick, 429,
		[]string{"retry-after: 1", "content-type: application/json", "x-reason: quota"},
		quickly, nil, ofDesign.Body,
	},
	{
		"status only", responding(config.Response{Status: 503}), quick, 503,
		[]string{"retry-after: 1", isProblem},
		quickly, isFast, "",
	},
	{
		"body only", responding(config.Response{Status: 429, HasBody: true, Body: "no"}), quick, 429,
		[]string{"retry-after: 1", "content-type: text/plain; charset=utf-8"},
		quickly, nil, "no",
	},
	{
		"type only", responding(config.Response{Status: 429, ContentType: "application/json"}), quick, 429,
		[]string{"retry-after: 1", "content-type: application/json"},
		quickly, isFast, "",
	},
	{
		"headers only", responding(config.Response{Status: 429, Headers: [][2]string{{"b", "2"}, {"a", "1"}}}), quick, 429,
		[]string{"retry-after: 1", isProblem, "b: 2", "a: 1"},
		quickly, isFast, "",
	},

	// A block names no policy, and a configured response stands in its place, too.
	{
		"a block for a while", shows, blocks(90_000_001, allowed(global, 7, 200), blocked(hourly, 90_000_001)), 429,
		x(1000, 0, 91, draft(`"global";q=5000;w=1, "hourly";q=1000;w=3600`, `"global";r=7;t=1, "hourly";r=0;t=91`,
			"retry-after: 91", isProblem)...), "Blocked. Retry after 91 seconds.", nil, "",
	},
	{
		"a block without end", shows, blocks(algo.Never, blocked(hourly, algo.Never)), 429,
		x(1000, 0, 0, draft(`"hourly";q=1000;w=3600`, `"hourly";r=0`, isProblem)...), "Blocked.", nil, "",
	},
	{
		"a block with a limit that rejects for longer", shows,
		blocks(1e6, blocked(hourly, 1e6), rejected(fast, 0, 9e6, 9e6)), 429,
		x(5, 0, 9, draft(`"hourly";q=1000;w=3600, "fast";q=5;w=1`, `"hourly";r=0;t=1, "fast";r=0;t=1`,
			"retry-after: 9", isProblem)...), "Blocked. Retry after 9 seconds.", nil, "",
	},
	{
		"a block of a rule without limits", shows, blocks(1), 429, x(0, 0, 1, "retry-after: 1", isProblem),
		"Blocked. Retry after 1 second.", nil, "",
	},
	{
		"a block of a rule without limits, with one that admits", shows, blocks(algo.Never, allowed(fast, 3, 1)), 429,
		x(0, 0, 0, draft(`"fast";q=5;w=1`, `"fast";r=3;t=1`, isProblem)...), "Blocked.", nil, "",
	},
	{
		"a block with a response", responding(config.Response{Status: 418, Body: "no", HasBody: true}),
		blocks(1e6, blocked(hourly, 1e6)), 418,
		[]string{"retry-after: 1", "content-type: text/plain; charset=utf-8"},
		"Blocked. Retry after 1 second.", nil, "no",
	},
	{
		"a limit beside a block",
		config.Config{},
		by(rejected(fast, 0, 1e6, 1e6), blocked(hourly, 5e6)), 429,
		[]string{"retry-after: 5", isProblem},
		"Limit exceeded: fast. Retry after 5 seconds.", isFast, "",
	},

	// Clients see nothing of a rule with "headers": false but Retry-After.
	{
		"silent", shows, by(rejected(silent(fast), 0, 1, 1)), 429,
		[]string{"retry-after: 1", isProblem},
		"Limit exceeded. Retry after 1 second.", nil, "",
	},
	{
		"silent, beside one that admits", shows, by(allowed(hourly, 9, 5e6), rejected(silent(fast), 0, 1, 1)), 429,
		draft(`"hourly";q=1000;w=3600`, `"hourly";r=9;t=5`, "retry-after: 1", isProblem),
		"Limit exceeded. Retry after 1 second.", nil, "",
	},
	{
		"silent, beside one that rejects", shows, by(rejected(hourly, 0, 5e6, 5e6), rejected(silent(fast), 0, 9e6, 9e6)), 429,
		x(1000, 0, 5, draft(`"hourly";q=1000;w=3600`, `"hourly";r=0;t=5`, "retry-after: 9", isProblem)...),
		"Limit exceeded: hourly. Retry after 9 seconds.",
		[]string{"hourly"},
		"",
	},
	{
		"a silent block", shows,
		Rejection{Limits: []Limit{blocked(silent(fast), 1)}, Blocked: true, LeftMicros: 1, Silent: true},
		429,
		[]string{"retry-after: 1", isProblem},
		"Blocked. Retry after 1 second.", nil, "",
	},

	// The 503 of a failure is never replaced.
	{
		"undecided",
		config.Config{Headers: both, Response: &ofDesign},
		Rejection{Undecided: true},
		503,
		[]string{"retry-after: 1", isProblem},
		denyDetail, nil, "",
	},
}

// TestRefuse holds each answer, and the one to the same request by gRPC.
func TestRefuse(t *testing.T) {
	t.Parallel()
	for _, tt := range answers {
		w := New(&tt.cfg, 1)
		got := w.Refuse(&tt.r)
		testenv.Same(t, tt.name+": the status", got.Status, tt.status)
		testenv.Same(t, tt.name+": the status of gRPC", got.GRPCStatus, grpcNone)
		testenv.SameList(t, tt.name+": the headers", fields(got.Headers), tt.headers)
		kind, title := "quota-exceeded", "Too Many Requests"
		switch {
		case tt.r.Undecided:
			kind, title = "temporary-reduced-capacity", "Service Unavailable"
		case tt.r.Blocked:
			kind = "abnormal-usage-detected"
		}
		problem := `{"type":"https://iana.org/assignments/http-problem-types#` + kind + `",` +
			fmt.Sprintf(`"title":"%s","status":%d,"detail":%q`, title, tt.status, tt.detail)
		if len(tt.violated) > 0 {
			names, _ := json.Marshal(tt.violated)
			problem += `,"violated-policies":` + string(names)
		}
		body := cmp.Or(tt.body, problem+"}")
		testenv.Same(t, tt.name+": the body", got.Body, body)

		tt.r.GRPC = true
		got = w.Refuse(&tt.r)
		code := int32(8)
		if tt.r.Undecided {
			code = 14
		}
		ofType := func(line string) bool { return strings.HasPrefix(line, "content-type: ") }
		testenv.Same(t, tt.name+", gRPC: the status", got.GRPCStatus, code)
		headers := slices.DeleteFunc(slices.Clone(tt.headers), ofType)
		testenv.SameList(t, tt.name+", gRPC: the headers", fields(got.Headers), headers)
		testenv.Same(t, tt.name+", gRPC: the message", got.Body, tt.detail)
	}
	empty := config.Response{Status: 429, HasBody: true}
	emptied := responding(empty)
	testenv.Same(t, "a body that is configured to be empty", New(&emptied, 1).Refuse(&quick).Body, "")
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		limits []Limit
		want   string // "" for no header
		detail string
	}{
		{"at least a second", []Limit{rejected(fast, 0, 9, 1)}, "1", "Limit exceeded: fast. Retry after 1 second."},
		{"at least a second, even if nothing is left to wait for", []Limit{rejected(fast, 0, 9, 0)}, "1", ""},
		{"whole seconds", []Limit{rejected(fast, 0, 9, 2e6)}, "2", "Limit exceeded: fast. Retry after 2 seconds."},
		{"rounded up", []Limit{rejected(fast, 0, 9, 2e6+1)}, "3", "Limit exceeded: fast. Retry after 3 seconds."},
		{
			"the longest",
			[]Limit{rejected(fast, 0, 9, 2e6), rejected(hourly, 1, 9, 9e6), rejected(global, 0, 9, 3e6)},
			"9", "",
		},
		{"not of one that allowed", []Limit{
			rejected(fast, 0, 9, 2e6),
			{Label: hourly, Decision: algo.Decision{Allowed: true, RetryAfterMicros: 9e6}},
		}, "2", ""},
		{
			"never",
			[]Limit{rejected(fast, 5, 0, algo.Never)},
			"",
			"Limit exceeded: fast. The request costs more than can be allowed at once, so waiting does not help.",
		},
		{"never of one", []Limit{rejected(fast, 5, 0, algo.Never), rejected(hourly, 1, 9, 9e6)}, "", ""},
		{"never of the last", []Limit{rejected(hourly, 1, 9, 9e6), rejected(fast, 5, 0, algo.Never)}, "", ""},
	} {
		reply := New(&config.Config{}, 1).Refuse(&Rejection{Limits: tt.limits})
		got := ""
		for _, h := range reply.Headers {
			if h[0] == "retry-after" {
				got = h[1]
			}
		}
		if got != tt.want {
			t.Errorf("%s: Retry-After is %q, want %q", tt.name, got, tt.want)
		}
		if !strings.Contains(reply.Body, `"detail":"`+tt.detail) {
			t.Errorf("%s: %s, want the detail %q", tt.name, reply.Body, tt.detail)
		}
	}
}

func TestIsGRPC(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]bool{
		"application/grpc":                 true,
		"application/grpc+proto":           true,
		"application/grpc+":                true,
		"application/grpc-web":             false,
		"application/grpc-web+proto":       false,
		"application/grpc; charset=utf-8":  false,
		"Application/Grpc":                 false,
		"application/grp":                  false,
		"application/json":                 false,
		"":                                 false,
		"text/plain, application/grpc+foo": false,
	} {
		if IsGRPC(contentType) != want {
			t.Errorf("IsGRPC(%q) is %v", contentType, !want)
		}
	}
}

// Access logs name the rule where one rule made the difference.
func TestTexts(t *testing.T) {
	t.Parallel()
	for o, want := range map[Outcome]string{
		Allowed: "allowed", Limited: "limited:r", ShadowLimited: "shadow:r", Exempt: "exempt:r", None: "none",
		FailedAllow: "failed:allow", FailedDeny: "failed:deny",
		LocalAllowed: "local:allowed", LocalLimited: "local:limited:r",
	} {
		if got := NewTexts("r")[o]; got != want {
			t.Errorf("%s: the text is %q, want %q", o.Metric(), got, want)
		}
	}
}

// Not parallel, as it counts allocations.
func TestAnswersAllocateNothing(t *testing.T) {
	w := New(&config.Config{
		Headers:  both,
		Response: &config.Response{Status: 429, Headers: [][2]string{{"x-reason", "quota"}}},
	}, 1)
	limits := []Limit{allowed(perUser, 19, 100_000), rejected(hourly, 0, 3500e6, 2e6), rejected(fast, 0, 250_000, 10)}
	for name, write := range map[string]func(){
		"headers":   func() { w.Headers(limits, 1, Upstream{}) },
		"rejection": func() { w.Refuse(&Rejection{Limits: limits, AtMicros: 1}) },
		"gRPC":      func() { w.Refuse(&Rejection{Limits: limits, AtMicros: 1, GRPC: true}) },
		"denial":    func() { w.Refuse(&Rejection{Undecided: true}) },
	} {
		if n := testing.AllocsPerRun(100, write); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}

func TestAppendState(t *testing.T) {
	t.Parallel()
	limited := func(identity string, limits ...Limit) Rejection { return Rejection{By: limits, Identity: identity} }
	blocked := func(left int64) Rejection { return Rejection{Blocked: true, LeftMicros: left, Identity: `a"b`} }
	for _, tt := range []struct {
		name string
		r    Rejection
		want string
	}{
		{
			"one limit", limited("k", rejected(hourly, 0, 3500e6, 1739_000_001)),
			`{"limit":"hourly","identity":"k","retry_after":1740}`,
		},
		{
			"the longest wait",
			limited("k", allowed(perUser, 19, 100_000), rejected(fast, 0, 250_000, 10), rejected(hourly, 0, 3500e6, 2e6)),
			`{"limit":"hourly","identity":"k","retry_after":2}`,
		},
		{
			"no wait helps", limited("k", rejected(hourly, 0, 3500e6, 2e6), rejected(fast, 0, 250_000, algo.Never)),
			`{"limit":"fast","identity":"k"}`,
		},
		{
			"hostile text", limited("a\"\u009b\u202e\n", rejected(hourly, 0, 1e6, 1e6)),
			`{"limit":"hourly","identity":"a\"\u009b\u202e\u000a","retry_after":1}`,
		},
		{"a block without end", blocked(algo.Never), `{"limit":null,"identity":"a\"b"}`},
		{"a short block", blocked(1), `{"limit":null,"identity":"a\"b","retry_after":1}`},
		{"a block", blocked(61_000_000), `{"limit":null,"identity":"a\"b","retry_after":61}`},
	} {
		testenv.Same(t, tt.name, string(tt.r.AppendState(nil)), tt.want)
	}
}

// Jitter makes waits longer by up to its share, rounded up to a second, and never shorter.
func TestRetryJitter(t *testing.T) {
	t.Parallel()
	w := New(&config.Config{RetryJitterPercent: 10}, 1)
	for wait, most := range map[int]int{1: 2, 10: 11, 11: 13, 100: 110} {
		seen := map[int]bool{}
		for range 2000 {
			reply := w.Refuse(&Rejection{Limits: []Limit{rejected(hourly, 0, 3500e6, int64(wait)*1e6)}})
			for _, h := range reply.Headers {
				if h[0] == "retry-after" {
					n, err := strconv.Atoi(h[1])
					if err != nil {
						t.Fatal(err)
					}
					seen[n] = true
				}
			}
		}
		for n := range seen {
			testenv.Within(t, "seconds to retry after", n, wait, most)
		}
		testenv.Same(t, fmt.Sprint("different waits after one of ", wait), len(seen), most-wait+1)
	}
}

// TestLongestBlock: a report says how long the longest block lasts.
func TestLongestBlock(t *testing.T) {
	t.Parallel()
	var r Report
	for _, tc := range [][2]int64{{2e6, 2e6}, {5e6, 5e6}, {3e6, 5e6}, {algo.Never, algo.Never}, {9e6, algo.Never}} {
		r.Block(tc[0])
		testenv.Same(t, fmt.Sprint("what is left with one of ", tc[0]), r.LeftMicros, tc[1])
	}
}
