package main

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// rejected is the answer to the second request under a rule named "a" that admits
// one request an hour.
func rejected(w *worker, config string, namesAndValues ...string) *wasmhost.LocalResponse {
	w.t.Helper()
	i := w.load(`{` + config + `"rules": [{"name": "a", ` + once + `}]}`)
	i.get("/").end()
	x := i.get("/", namesAndValues...)
	defer x.End()
	return x.local()
}

func TestRejection(t *testing.T) {
	t.Parallel()
	rateLimit := standard(1, 0, "3600") + " [retry-after: 3600]"
	grpc := []string{"content-type", "application/grpc"}
	for _, test := range []struct {
		name    string
		config  string
		request []string
		want    wasmhost.LocalResponse
		headers string
	}{
		{
			name: "by default it is a problem",
			want: wasmhost.LocalResponse{
				Status: 429, Details: "limited:a", GRPCStatus: -1,
				Body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,` +
					`"detail":"Limit exceeded: a. Retry after 3600 seconds.","violated-policies":["a"]}`,
			},
			headers: rateLimit + " [content-type: application/problem+json]",
		},
		{
			name:   "as configured",
			config: `"response": {"status": 503, "content_type": "application/json", "body": "{\"error\":\"slow down\"}", "headers": {"X-Reason": "quota"}},`,
			want: wasmhost.LocalResponse{
				Status: 503, Details: "limited:a", GRPCStatus: -1, Body: `{"error":"slow down"}`,
			},
			headers: rateLimit + " [content-type: application/json] [x-reason: quota]",
		},
		{
			name: "to gRPC", request: grpc,
			want: wasmhost.LocalResponse{
				Status: 429, Details: "limited:a", GRPCStatus: 8, Body: "Limit exceeded: a. Retry after 3600 seconds.",
			},
			headers: rateLimit,
		},
		{
			name: "to gRPC as configured: status and body stay gRPC's", request: grpc,
			config: `"headers": [], "response": {"status": 503, "body": "no", "headers": {"x-reason": "quota"}},`,
			want: wasmhost.LocalResponse{
				Status: 503, Details: "limited:a", GRPCStatus: 8, Body: "Limit exceeded: a. Retry after 3600 seconds.",
			},
			headers: " [retry-after: 3600] [x-reason: quota]",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				got := rejected(w, test.config, test.request...)
				if h := bracketed(got.Headers); h != test.headers {
					t.Errorf("headers\n got%s\nwant%s", h, test.headers)
				}
				if got.Status != test.want.Status || got.Details != test.want.Details ||
					got.GRPCStatus != test.want.GRPCStatus || got.Body != test.want.Body {
					t.Errorf("got  %+v\nwant %+v", *got, test.want)
				}
			})
		})
	}
}

// The names of rules and limits come from the configuration as they are.
func TestRejectionNames(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		i := w.load(`{"headers": [], "rules": [
			{"name": "the \"A\" team", "limits": [
				{"algorithm": "fixed_window", "limit": 1, "window": "1h", "name": "hourly"},
				{"algorithm": "fixed_window", "limit": 1, "window": "1d"}]}]}`)
		i.get("/").end()
		x := i.get("/")
		defer x.End()
		if got, want := x.outcome(), `limited:the "A" team`; got != want {
			t.Errorf("filter state %q, want %q", got, want)
		}
		if got, want := x.local().Details, `limited:the_"A"_team`; got != want {
			t.Errorf("details %q, want %q", got, want)
		}
		want := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many Requests","status":429,` +
			`"detail":"Limit exceeded: hourly, the \"A\" team-1d. Retry after 43200 seconds.","violated-policies":["hourly","the \"A\" team-1d"]}`
		if got := x.local().Body; got != want {
			t.Errorf("body\n got %s\nwant %s", got, want)
		}
	})
}

// What the upstream says of limits of its own is replaced, whatever its case and
// however often it stands there, and left alone where Sluice says nothing.
func TestUpstreamHeaders(t *testing.T) {
	t.Parallel()
	upstream := []string{"x-ratelimit-limit", "7", "server", "s", "x-ratelimit-limit", "8", "x-ratelimit-reset", "9", "ratelimit", "theirs"}
	for _, test := range []struct{ headers, want string }{
		{`["x-ratelimit"]`, " [server: s] [ratelimit: theirs]" + standard(1, 0, "3600")},
		{
			`["x-ratelimit", "draft"]`,
			" [server: s]" + standard(1, 0, "3600") + ` [ratelimit-policy: "a";q=1;w=3600] [ratelimit: "a";r=0;t=3600]`,
		},
		{
			`["draft"]`, " [x-ratelimit-limit: 7] [server: s] [x-ratelimit-limit: 8] [x-ratelimit-reset: 9]" +
				` [ratelimit-policy: "a";q=1;w=3600] [ratelimit: "a";r=0;t=3600]`,
		},
		{`[]`, bracketed(wasmhost.Response("200", upstream...)[1:])},
	} {
		t.Run(test.headers, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				i := w.load(`{"headers": ` + test.headers + `, "rules": [{"name": "a", "match": {"path": "/"}, ` + once + `}]}`)
				x := i.get("/")
				if got := bracketed(x.respond(upstream...)); got != test.want {
					t.Errorf("got %s\nwant%s", got, test.want)
				}
				x.End()
				x = i.get("/other")
				if got, want := bracketed(x.respond(upstream...)), bracketed(wasmhost.Response("200", upstream...)[1:]); got != want {
					t.Errorf("no rule applies: got %s\nwant%s", got, want)
				}
				x.End()
			})
		})
	}
}
