package answer

import (
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

func silent(p *Label) *Label {
	unseen := *p
	unseen.silent = true
	return &unseen
}

// TestSilent: clients see nothing of a rule with "headers": false but Retry-After.
func TestSilent(t *testing.T) {
	t.Parallel()
	w := New(&config.Config{Headers: both}, 1)
	none := w.Headers([]Limit{allowed(silent(fast), 1, 1e6)}, 0, Upstream{})
	testenv.SameList(t, "headers of such a rule alone", fields(none), nil)
	beside := w.Headers([]Limit{allowed(silent(fast), 0, 1e6), allowed(hourly, 9, 5e6)}, 0, Upstream{})
	testenv.SameList(t, "headers beside another rule", fields(beside), []string{
		"x-ratelimit-limit: 1000", "x-ratelimit-remaining: 9", "x-ratelimit-reset: 5",
		`ratelimit-policy: "hourly";q=1000;w=3600`, `ratelimit: "hourly";r=9;t=5`,
	})
	const exceeded = `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",` +
		`"title":"Too Many Requests","status":429,"detail":"Limit exceeded`
	for _, tt := range []struct {
		name    string
		r       Rejection
		headers []string
		body    string
	}{
		{
			name: "alone", r: Rejection{Limits: []Limit{rejected(silent(fast), 0, 1, 1)}},
			headers: []string{"retry-after: 1", "content-type: application/problem+json"},
			body:    exceeded + `. Retry after 1 second."}`,
		},
		{
			name: "beside one that admits",
			r:    Rejection{Limits: []Limit{allowed(hourly, 9, 5e6), rejected(silent(fast), 0, 1, 1)}},
			headers: []string{
				`ratelimit-policy: "hourly";q=1000;w=3600`, `ratelimit: "hourly";r=9;t=5`,
				"retry-after: 1", "content-type: application/problem+json",
			},
			body: exceeded + `. Retry after 1 second."}`,
		},
		{
			name: "beside one that rejects",
			r: Rejection{Limits: []Limit{
				rejected(hourly, 0, 5e6, 5e6), rejected(silent(fast), 0, 9e6, 9e6),
			}},
			headers: []string{
				"x-ratelimit-limit: 1000", "x-ratelimit-remaining: 0", "x-ratelimit-reset: 5",
				`ratelimit-policy: "hourly";q=1000;w=3600`, `ratelimit: "hourly";r=0;t=5`,
				"retry-after: 9", "content-type: application/problem+json",
			},
			body: exceeded + `: hourly. Retry after 9 seconds.","violated-policies":["hourly"]}`,
		},
		{
			name:    "a block",
			r:       Rejection{Limits: []Limit{blocked(silent(fast), 1)}, Blocked: true, LeftMicros: 1, Silent: true},
			headers: []string{"retry-after: 1", "content-type: application/problem+json"},
			body:    abnormal + `429,"detail":"Blocked. Retry after 1 second."}`,
		},
	} {
		reply := w.Refuse(&tt.r)
		testenv.SameList(t, tt.name+": the headers", fields(reply.Headers), tt.headers)
		testenv.Same(t, tt.name+": the body", reply.Body, tt.body)
	}
}

// TestResponseOfARule stands in place of the top level's, whose fields it does not take.
func TestResponseOfARule(t *testing.T) {
	t.Parallel()
	f := NewRefusals(&config.Config{Response: &config.Response{Status: 418, Body: "no", HasBody: true}}, 1)
	r := hourlyRejection()
	first, _ := f.Answer(&r)
	testenv.Same(t, "the top level's status", first.Status, 418)
	r.Response = &config.Response{Status: 402, Headers: [][2]string{{"x-a", "b"}}}
	own, again := f.Answer(&r)
	testenv.Same(t, "that it is the same answer again", again, false)
	testenv.Same(t, "the rule's status", own.Status, 402)
	testenv.Same(t, "the rule's body is the default", parseProblem(t, own.Body).Status, 402)
	testenv.Same(t, "the rule's header", own.Headers[len(own.Headers)-1], [2]string{"x-a", "b"})
	r.GRPC = true
	rpc, _ := f.Answer(&r)
	testenv.Same(t, "the status of gRPC", rpc.GRPCStatus, 8)
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
