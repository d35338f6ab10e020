package answer

import (
	"slices"
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

// blocks are rejections of a rule that blocks, at 1,700,000,000 s.
var blocks = []struct {
	name    string
	limits  []Limit
	left    int64
	headers []string
	detail  string
}{
	{
		name: "for a while", limits: []Limit{allowed(global, 7, 200), blocked(hourly, 90_000_001)}, left: 90_000_001,
		headers: []string{
			"x-ratelimit-limit: 1000", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 91",
			`ratelimit-policy: "global";q=5000;w=1, "hourly";q=1000;w=3600`, `ratelimit: "global";r=7;t=1, "hourly";r=0;t=91`,
			"retry-after: 91",
		},
		detail: "Blocked. Retry after 91 seconds.",
	},
	{
		name: "without end", limits: []Limit{blocked(hourly, algo.Never)}, left: algo.Never,
		headers: []string{
			"x-ratelimit-limit: 1000", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 0",
			`ratelimit-policy: "hourly";q=1000;w=3600`, `ratelimit: "hourly";r=0`,
		},
		detail: "Blocked.",
	},
	{
		name: "with a limit that rejects for longer", limits: []Limit{blocked(hourly, 1e6), rejected(fast, 0, 9e6, 9e6)},
		left: 1e6,
		headers: []string{
			"x-ratelimit-limit: 5", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 9",
			`ratelimit-policy: "hourly";q=1000;w=3600, "fast";q=5;w=1`, `ratelimit: "hourly";r=0;t=1, "fast";r=0;t=1`,
			"retry-after: 9",
		},
		detail: "Blocked. Retry after 9 seconds.",
	},
	{
		name: "of a rule without limits", left: 1,
		headers: []string{"x-ratelimit-limit: 0", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 1", "retry-after: 1"},
		detail:  "Blocked. Retry after 1 second.",
	},
	{
		name: "of a rule without limits, with one that admits", limits: []Limit{allowed(fast, 3, 1)}, left: algo.Never,
		headers: []string{
			"x-ratelimit-limit: 0", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 0",
			`ratelimit-policy: "fast";q=5;w=1`, `ratelimit: "fast";r=3;t=1`,
		},
		detail: "Blocked.",
	},
}

func TestBlock(t *testing.T) {
	t.Parallel()
	const now = 1_700_000_000_000_000
	for _, tc := range blocks {
		w := New(&config.Config{Headers: both}, 1)
		reply := w.Block(tc.limits, tc.left, now, false)
		testenv.Same(t, tc.name+": the status", reply.Status, 429)
		headers := append(slices.Clone(tc.headers), "content-type: application/problem+json")
		testenv.SameList(t, tc.name+": the headers", fields(reply.Headers), headers)
		checkProblem(t, tc.name, reply.Body, problem{
			Type:   "https://iana.org/assignments/http-problem-types#abnormal-usage-detected",
			Title:  "Too Many Requests",
			Status: 429,
			Detail: tc.detail,
		})
		grpc := w.Block(tc.limits, tc.left, now, true)
		testenv.Same(t, tc.name+": the status of gRPC", grpc.GRPCStatus, 8)
		testenv.Same(t, tc.name+": the message of gRPC", grpc.Body, tc.detail)
	}
}

// A configured response stands in place of the default one for blocks as well.
func TestBlockWithAConfiguredResponse(t *testing.T) {
	t.Parallel()
	w := New(&config.Config{Response: &config.Response{Status: 418, Body: "no", HasBody: true}}, 1)
	if reply := w.Block([]Limit{blocked(hourly, 1e6)}, 1e6, 0, false); reply.Status != 418 || reply.Body != "no" {
		t.Errorf("%+v", reply)
	}
}

// A block is not listed as a violated policy, where another rule's limit is.
func TestBlockIsNoViolation(t *testing.T) {
	t.Parallel()
	w := New(&config.Config{}, 1)
	p := parseProblem(t, w.Reject([]Limit{rejected(fast, 0, 1e6, 1e6), blocked(hourly, 5e6)}, 0, false).Body)
	if !slices.Equal(p.Violated, []string{"fast"}) || p.Detail != "Limit exceeded: fast. Retry after 5 seconds." {
		t.Errorf("%+v", p)
	}
}

func TestStateOfBlock(t *testing.T) {
	t.Parallel()
	for left, want := range map[int64]string{
		algo.Never: `{"limit":null,"identity":"a\"b"}`,
		1:          `{"limit":null,"identity":"a\"b","retry_after":1}`,
		61_000_000: `{"limit":null,"identity":"a\"b","retry_after":61}`,
	} {
		r := Rejection{Blocked: true, LeftMicros: left, Identity: `a"b`}
		if got := string(r.AppendState(nil)); got != want {
			t.Errorf("%d us: %s, want %s", left, got, want)
		}
	}
}
