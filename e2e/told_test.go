package e2e

import (
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// told has a rule for each thing that clients are told, by its path.
const told = `{` + patient + `"headers": ["x-ratelimit", "draft"],
  "response": {"status": 403, "content_type": "text/plain", "body": "top", "headers": {"x-of": "top"}},
  "quota": {"path": "/.well-known/quota", "rules": ["tokens"]},
  "rules": [
    {"name": "free", "match": {"path": "/named", "cookies": {"staff": "yes"}}, "exempt": true},
    {"name": "bucket", "match": {"path": "/bucket"},
     "limits": [{"algorithm": "gcra", "limit": 10, "window": "1m", "burst": 5}]},
    {"name": "first", "match": {"path": "/first"},
     "limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 3, "window": "1h"}]},
    {"name": "log", "match": {"path": "/log"},
     "limits": [{"algorithm": "sliding_window_log", "limit": 3, "window": "1h"}]},
    {"name": "fresh", "match": {"path": "/fresh"}, "cost": 0,
     "limits": [{"algorithm": "sliding_window_counter", "limit": 3, "window": "1h"}]},
    {"name": "flight", "match": {"path": "/flight"}, "limits": [{"algorithm": "concurrency", "limit": 2}]},
    {"name": "tokens", "match": {"path": "/tokens"}, "cost": 300,
     "limits": [{"algorithm": "gcra", "limit": 1000, "window": "1h", "unit": "tokens"}]},
    {"name": "own", "match": {"path": "/own"}, "response": {"status": 402},
     "limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1h"}]},
    {"name": "other", "match": {"path": "/other"},
     "limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1h"}]},
    {"name": "unseen", "match": {"path": "/unseen"}, "response": {"headers": {"x-of": "rule"}}, "headers": false,
     "limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1h"}]},
    {"name": "beside", "match": {"path": "/beside"},
     "limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 9, "window": "1h"}]},
    {"name": "hidden", "match": {"path": "/beside"}, "headers": false,
     "limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1h"}]},
    {"name": "named", "match": {
       "path": "/named", "query": {"plan": {"prefix": "a b"}}, "cookies": {"seen": {"present": true}}},
     "limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 100, "window": "1h"}]}
  ]}`

const seen = "cookie: seen="

// tellings are requests in order, and what clients see of them.
var tellings = []struct {
	name, path string
	headers    []string
	status     int // 200 unless stated
	want       map[string]string
	body       string // of a refusal; "" for any
}{
	{name: "a bucket: t is the time of r units", path: "/bucket", want: map[string]string{
		"ratelimit-policy": `"bucket";q=5;w=30`, "ratelimit": `"bucket";r=4;t=24`, "x-ratelimit-reset": "6",
	}},
	{name: "a window: t is its end", path: "/first", want: map[string]string{
		"ratelimit-policy": `"first";q=3;w=3600`, "ratelimit": `"first";r=2;t=3600`,
	}},
	{name: "a log", path: "/log", want: map[string]string{"ratelimit": `"log";r=2;t=3600`}},
	{name: "a counter of which nothing is used", path: "/fresh", want: map[string]string{
		"ratelimit": `"fresh";r=3;t=3600`, "x-ratelimit-reset": "0",
	}},
	{name: "slots have no t", path: "/flight", want: map[string]string{
		"ratelimit-policy": `"flight";q=2;qu="concurrent-requests"`, "ratelimit": `"flight";r=1`,
	}},
	{name: "a unit", path: "/tokens", want: map[string]string{
		"ratelimit-policy": `"tokens";q=1000;w=3600;qu="tokens"`, "ratelimit": `"tokens";r=700;t=2520`,
	}},
	{name: "a rule with a response, below its limit", path: "/own", want: map[string]string{"x-of": ""}},
	{
		name: "its status, and the rest of the default answer", path: "/own", status: http.StatusPaymentRequired,
		want: map[string]string{
			"content-type": "application/problem+json", "x-of": "", "retry-after": "3600", "ratelimit": `"own";r=0;t=3600`,
		},
		body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests",` +
			`"status":402,"detail":"Limit exceeded: own. Retry after 3600 seconds.","violated-policies":["own"]}`,
	},
	{name: "a rule without a response, below its limit", path: "/other"},
	{
		name: "the top level's response", path: "/other", status: http.StatusForbidden, body: "top",
		want: map[string]string{"content-type": "text/plain", "x-of": "top", "ratelimit": `"other";r=0;t=3600`},
	},
	{name: "a rule without headers, below its limit", path: "/unseen", want: map[string]string{
		"x-ratelimit-limit": "", "ratelimit": "", "ratelimit-policy": "",
	}},
	{
		name: "its refusal", path: "/unseen", status: http.StatusTooManyRequests,
		want: map[string]string{
			"x-ratelimit-limit": "", "ratelimit": "", "ratelimit-policy": "", "retry-after": "3600", "x-of": "rule",
		},
		body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests",` +
			`"status":429,"detail":"Limit exceeded. Retry after 3600 seconds."}`,
	},
	{name: "beside one that is seen", path: "/beside", want: map[string]string{
		"x-ratelimit-limit": "9", "ratelimit-policy": `"beside";q=9;w=3600`, "ratelimit": `"beside";r=8;t=3600`,
	}},
	{name: "which shows its limit alone", path: "/beside", status: http.StatusForbidden, want: map[string]string{
		"x-ratelimit-limit": "", "ratelimit-policy": `"beside";q=9;w=3600`, "ratelimit": `"beside";r=8;t=3600`,
	}},
	{name: "a query and a cookie", path: "/named?plan=a%20b2", headers: []string{seen}, want: leaves("99")},
	{name: "another query", path: "/named?plan=b", headers: []string{seen}, want: leaves("")},
	{name: "no cookie", path: "/named?plan=a+b", want: leaves("")},
	{name: "a repeated parameter", path: "/named?plan=x&plan=y", headers: []string{seen}, want: leaves("98")},
	{
		name: "a repeated cookie is there", path: "/named?plan=a+b",
		headers: []string{"cookie: seen=1; seen=2"}, want: leaves("97"),
	},
	{
		name: "an exempt cookie", path: "/named?plan=a+b",
		headers: []string{`cookie: seen=1; staff="yes"`}, want: leaves(""),
	},
	{
		name: "a repeated one", path: "/named?plan=a+b",
		headers: []string{"cookie: seen=1; staff=yes; staff=no"}, want: leaves("96"),
	},
}

// TestTold is all that clients see of "t", "unit", a rule's "response" and "headers", and of conditions
// on queries and cookies. Requests are sent in order.
func TestTold(t *testing.T) {
	t.Parallel()
	s := start(t, told, envoytest.Options{})
	for _, tt := range tellings {
		r := get(t, s.URL+tt.path, tt.headers...)
		testenv.Same(t, tt.name+": the status", r.status, max(tt.status, http.StatusOK))
		expectHeaders(t, r, tt.want)
		if tt.body != "" {
			testenv.Same(t, tt.name+": the body", r.body, tt.body)
		}
		if t.Failed() {
			t.Fatal(tt.name)
		}
	}
	grpc := get(t, s.URL+"/own", ":method: POST", "content-type: application/grpc")
	testenv.Same(t, "a response of a rule, to gRPC: grpc-status", grpc.header.Get("grpc-status"), "8")
	_, quota := readQuota(t, s, http.MethodGet)
	testenv.Same(t, "limits of the quota", len(quota.Limits), 1)
	testenv.Same(t, "the unit in the quota", quota.Limits[0].Unit, "tokens")
}

// leaves is a response of the rule "named"; "" where it does not apply.
func leaves(remaining string) map[string]string {
	return map[string]string{"x-ratelimit-remaining": remaining}
}
