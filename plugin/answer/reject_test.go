package answer

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail"`
	Violated []string `json:"violated-policies"`
}

func parseProblem(t *testing.T, body string) problem {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(body))
	d.DisallowUnknownFields()
	var p problem
	if err := d.Decode(&p); err != nil {
		t.Fatalf("body %q: %v", body, err)
	}
	return p
}

// checkProblem holds a body to the problem that it should describe, field by field.
func checkProblem(t *testing.T, what, body string, want problem) {
	t.Helper()
	got := parseProblem(t, body)
	testenv.Same(t, what+": the problem's type", got.Type, want.Type)
	testenv.Same(t, what+": its title", got.Title, want.Title)
	testenv.Same(t, what+": its status", got.Status, want.Status)
	testenv.Same(t, what+": its detail", got.Detail, want.Detail)
	testenv.SameList(t, what+": its violated policies", got.Violated, want.Violated)
}

// checkReply holds the status and the headers of a reply to HTTP.
func checkReply(t *testing.T, what string, got Reply, status uint32, headers ...string) {
	t.Helper()
	testenv.Same(t, what+": the status", got.Status, status)
	testenv.Same(t, what+": the status of gRPC", got.GRPCStatus, -1)
	testenv.SameList(t, what+": the headers", fields(got.Headers), headers)
}

func isValid(names ...string) bool {
	return !slices.ContainsFunc(names, func(s string) bool { return !utf8.ValidString(s) })
}

// TestRejectSlots: no wait is known until a slot is given back, and no wait helps a cost
// above the limit.
func TestRejectSlots(t *testing.T) {
	t.Parallel()
	w := New(&config.Config{Headers: both}, 1)
	for _, tt := range []struct {
		retryMicros int64
		want        []string
	}{
		{1e6, []string{"retry-after: 1"}},
		{algo.Never, nil},
	} {
		got := fields(w.Reject([]Limit{rejected(slots, 0, 0, tt.retryMicros)}, 0, false).Headers)
		want := append([]string{
			"x-ratelimit-limit: 20", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 0",
			`ratelimit-policy: "chat";q=20;qu="concurrent-requests"`, `ratelimit: "chat";r=0`,
		}, append(tt.want, "content-type: application/problem+json")...)
		if !slices.Equal(got, want) {
			t.Errorf("after %d us:\n%q\nwant\n%q", tt.retryMicros, got, want)
		}
	}
}

func TestReject(t *testing.T) {
	t.Parallel()
	w := New(&config.Config{Headers: both}, 1)
	got := w.Reject([]Limit{
		allowed(perUser, 20, 0), rejected(hourly, 0, 3500e6, 2_000_001),
		rejected(fast, 1, 250_000, 10),
	}, 0, false)
	want := Reply{
		Status: 429,
		Headers: [][2]string{
			{"x-ratelimit-limit", "1000"},
			{"x-ratelimit-remaining", "0"},
			{"x-ratelimit-reset", "3500"},
			{"ratelimit-policy", `"per-user";q=20;w=2, "hourly";q=1000;w=3600, "fast";q=5;w=1`},
			{"ratelimit", `"per-user";r=20;t=2, "hourly";r=0;t=3, "fast";r=1;t=1`},
			{"retry-after", "3"},
			{"content-type", "application/problem+json"},
		},
		Body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
			`"title":"Too Many Requests","status":429,` +
			`"detail":"Limit exceeded: hourly, fast. Retry after 3 seconds.",` +
			`"violated-policies":["hourly","fast"]}`,
		GRPCStatus: -1,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("reply is\n%+v\nwant\n%+v", got, want)
	}
	if p := parseProblem(t, got.Body); !slices.Equal(p.Violated, []string{"hourly", "fast"}) || p.Status != 429 {
		t.Errorf("problem is %+v", p)
	}
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
		reply := New(&config.Config{}, 1).Reject(tt.limits, 0, false)
		got := ""
		for _, h := range reply.Headers {
			if h[0] == "retry-after" {
				got = h[1]
			}
		}
		if got != tt.want {
			t.Errorf("%s: Retry-After is %q, want %q", tt.name, got, tt.want)
		}
		if p := parseProblem(t, reply.Body); tt.detail != "" && p.Detail != tt.detail {
			t.Errorf("%s: detail is %q, want %q", tt.name, p.Detail, tt.detail)
		}
	}
}

func TestResponse(t *testing.T) {
	t.Parallel()
	const problemStart = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many ` +
		`Requests","status":`
	for _, tt := range []struct {
		name     string
		response config.Response
		status   uint32
		headers  []string
		body     string // its start
	}{
		{
			"of the design",
			config.Response{
				Status: 429, ContentType: "application/json", HasBody: true, Body: `{"error":"slow down"}`,
				Headers: [][2]string{{"x-reason", "quota"}},
			},
			429,
			[]string{"retry-after: 1", "content-type: application/json", "x-reason: quota"},
			`{"error":"slow down"}`,
		},
		{
			"status only",
			config.Response{Status: 503},
			503,
			[]string{"retry-after: 1", "content-type: application/problem+json"},
			problemStart + `503,`,
		},
		{
			"body only",
			config.Response{Status: 429, HasBody: true, Body: "no"},
			429,
			[]string{"retry-after: 1", "content-type: text/plain; charset=utf-8"},
			"no",
		},
		{
			"type only",
			config.Response{Status: 429, ContentType: "application/json"},
			429,
			[]string{"retry-after: 1", "content-type: application/json"},
			problemStart + `429,`,
		},
		{
			"headers only",
			config.Response{Status: 429, Headers: [][2]string{{"b", "2"}, {"a", "1"}}},
			429,
			[]string{"retry-after: 1", "content-type: application/problem+json", "b: 2", "a: 1"},
			problemStart + `429,`,
		},
	} {
		w := New(&config.Config{Response: &tt.response}, 1)
		got := w.Reject([]Limit{rejected(fast, 0, 9, 9)}, 0, false)
		checkReply(t, tt.name, got, tt.status, tt.headers...)
		testenv.Same(t, tt.name+": the start of the body", got.Body[:min(len(got.Body), len(tt.body))], tt.body)
	}
}

func TestEmptyBody(t *testing.T) {
	t.Parallel()
	w := New(&config.Config{Response: &config.Response{Status: 429, HasBody: true}}, 1)
	got := w.Reject([]Limit{rejected(fast, 0, 9, 9)}, 0, false)
	checkReply(t, "the reply", got, 429, "retry-after: 1", "content-type: text/plain; charset=utf-8")
	testenv.Same(t, "the body", got.Body, "")
}

func TestDeny(t *testing.T) {
	t.Parallel()
	w := New(&config.Config{
		Headers:  both,
		Response: &config.Response{Status: 429, HasBody: true, Body: "x", Headers: [][2]string{{"x-reason", "quota"}}},
	}, 1)
	got := w.Deny(false)
	checkReply(t, "the denial", got, 503, "retry-after: 1", "content-type: application/problem+json")
	checkProblem(t, "the denial", got.Body, problem{
		Type:   "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity",
		Title:  "Service Unavailable",
		Status: 503,
		Detail: denyDetail,
	})
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	response := &config.Response{
		Status: 418, ContentType: "application/json", HasBody: true, Body: "{}",
		Headers: [][2]string{{"x-reason", "quota"}},
	}
	w := New(&config.Config{Headers: xOnly, Response: response}, 1)
	got := w.Reject([]Limit{rejected(policy(`a "b"`, algo.Limit{Algorithm: algo.FixedWindow, Units: 5, WindowMicros: 1e6}),
		0, 1, 2e6)}, 0, true)
	want := []string{
		"x-ratelimit-limit: 5", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 1", "retry-after: 2",
		"x-reason: quota",
	}
	testenv.Same(t, "the status of gRPC", got.GRPCStatus, 8)
	testenv.SameList(t, "the headers", fields(got.Headers), want)
	testenv.Same(t, "the message", got.Body, `Limit exceeded: a "b". Retry after 2 seconds.`)
	got = w.Deny(true)
	testenv.Same(t, "the denial's status of gRPC", got.GRPCStatus, 14)
	testenv.Same(t, "its status", got.Status, 503)
	testenv.SameList(t, "its headers", fields(got.Headers), []string{"retry-after: 1"})
	testenv.Same(t, "its message", got.Body, denyDetail)
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
		"rejection": func() { w.Reject(limits, 1, false) },
		"gRPC":      func() { w.Reject(limits, 1, true) },
		"denial":    func() { w.Deny(false) },
	} {
		if n := testing.AllocsPerRun(100, write); n != 0 {
			t.Errorf("%s: %v allocations, want none", name, n)
		}
	}
}
