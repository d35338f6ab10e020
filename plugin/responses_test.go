package main

import (
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
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
	rateLimit := wasmhost.Pairs{
		{"x-ratelimit-limit", "1"}, {"x-ratelimit-remaining", "0"}, {"x-ratelimit-reset", "3600"}, {"retry-after", "3600"},
	}
	grpc := []string{"content-type", "application/grpc"}
	const grpcMessage = "Limit exceeded: a. Retry after 3600 seconds."
	for _, test := range []struct {
		name    string
		config  string
		request []string
		want    wasmhost.LocalResponse
	}{
		{
			name: "by default it is a problem",
			want: wasmhost.LocalResponse{
				Status: 429, GRPCStatus: -1, Headers: with(rateLimit, "content-type", "application/problem+json"),
				Body: `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many ` +
					`Requests","status":429,` +
					`"detail":"Limit exceeded: a. Retry after 3600 seconds.","violated-policies":["a"]}`,
			},
		},
		{
			name: "as configured",
			config: `"response": {"status": 503, "content_type": "application/json", "body": "{\"error\":\"slow down\"}", ` +
				`"headers": {"X-Reason": "quota"}},`,
			want: wasmhost.LocalResponse{
				Status: 503, GRPCStatus: -1, Headers: with(rateLimit, "content-type", "application/json", "x-reason", "quota"),
				Body: `{"error":"slow down"}`,
			},
		},
		{
			name: "to gRPC", request: grpc,
			want: wasmhost.LocalResponse{Status: 429, GRPCStatus: 8, Headers: rateLimit, Body: grpcMessage},
		},
		{
			name: "to gRPC as configured: status and body stay gRPC's", request: grpc,
			config: `"headers": [], "response": {"status": 503, "body": "no", "headers": {"x-reason": "quota"}},`,
			want: wasmhost.LocalResponse{
				Status: 503, GRPCStatus: 8, Headers: with(nil, "retry-after", "3600", "x-reason", "quota"), Body: grpcMessage,
			},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				got := rejected(w, test.config, test.request...)
				testenv.Same(w.t, "status", got.Status, test.want.Status)
				testenv.Same(w.t, "gRPC status", got.GRPCStatus, test.want.GRPCStatus)
				testenv.Same(w.t, "response code details", got.Details, "limited:a")
				testenv.Same(w.t, "body", got.Body, test.want.Body)
				expectHeaders(t, got.Headers, test.want.Headers)
			})
		})
	}
}

// with is headers and more of them.
func with(headers wasmhost.Pairs, namesAndValues ...string) wasmhost.Pairs {
	return append(slices.Clone(headers), wasmhost.Response("", namesAndValues...)[1:]...)
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
		want := `{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Too Many ` +
			`Requests","status":429,` +
			`"detail":"Limit exceeded: hourly, the \"A\" team-1d. Retry after 43200 ` +
			`seconds.","violated-policies":["hourly","the \"A\" team-1d"]}`
		if got := x.local().Body; got != want {
			t.Errorf("body\n got %s\nwant %s", got, want)
		}
	})
}

// What the upstream says of limits of its own is replaced, whatever its case and
// however often it stands there, and left alone where Sluice says nothing.
func TestUpstreamHeaders(t *testing.T) {
	t.Parallel()
	upstream := []string{
		"x-ratelimit-limit", "7", "server", "s", "x-ratelimit-limit", "8", "x-ratelimit-reset",
		"9", "ratelimit", "theirs",
	}
	for _, test := range []struct {
		name, headers string
		want          wasmhost.Pairs
	}{
		{
			name: "X-RateLimit alone", headers: `["x-ratelimit"]`,
			want: with(nil, "server", "s", "ratelimit", "theirs",
				"x-ratelimit-limit", "1", "x-ratelimit-remaining", "0", "x-ratelimit-reset", "3600"),
		},
		{
			name: "both", headers: `["x-ratelimit", "draft"]`,
			want: with(nil, "server", "s",
				"x-ratelimit-limit", "1", "x-ratelimit-remaining", "0", "x-ratelimit-reset", "3600",
				"ratelimit-policy", `"a";q=1;w=3600`, "ratelimit", `"a";r=0;t=3600`),
		},
		{
			name: "the draft's alone", headers: `["draft"]`,
			want: with(nil, "x-ratelimit-limit", "7", "server", "s", "x-ratelimit-limit", "8", "x-ratelimit-reset", "9",
				"ratelimit-policy", `"a";q=1;w=3600`, "ratelimit", `"a";r=0;t=3600`),
		},
		{name: "none", headers: `[]`, want: with(nil, upstream...)},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				i := w.load(`{"headers": ` + test.headers + `, "rules": [{"name": "a", "match": {"path": "/"}, ` + once + `}]}`)
				x := i.get("/")
				expectHeaders(t, x.respond(upstream...), test.want)
				x.End()
				x = i.get("/other") // to which no rule applies
				expectHeaders(t, x.respond(upstream...), with(nil, upstream...))
				x.End()
			})
		})
	}
}

// A 429 of the upstream's own is about its limits: X-RateLimit-* stay as they are,
// and the members of the draft are appended to its lists.
func TestUpstreamRejects(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		status   string
		upstream []string
		want     wasmhost.Pairs
	}{
		{
			name: "with limits of its own", status: "429",
			upstream: []string{
				"x-ratelimit-limit", "7", "ratelimit-policy", `"theirs";q=7;w=1`, "ratelimit",
				`"theirs";r=0;t=1`,
			},
			want: with(nil, "x-ratelimit-limit", "7",
				"ratelimit-policy", `"theirs";q=7;w=1, "a";q=1;w=3600`, "ratelimit", `"theirs";r=0;t=1, "a";r=0;t=3600`),
		},
		{
			name: "with a limit and a reset of its own", status: "429",
			upstream: []string{"x-ratelimit-limit", "7", "x-ratelimit-reset", "9"},
			want: with(nil, "x-ratelimit-limit", "7", "x-ratelimit-reset", "9",
				"ratelimit-policy", `"a";q=1;w=3600`, "ratelimit", `"a";r=0;t=3600`),
		},
		{
			name: "with a reset without a limit", status: "429",
			upstream: []string{"x-ratelimit-reset", "9", "ratelimit-policy", `"theirs";q=7;w=1`},
			want: with(nil, "x-ratelimit-limit", "1", "x-ratelimit-remaining", "0", "x-ratelimit-reset", "3600",
				"ratelimit-policy", `"a";q=1;w=3600`, "ratelimit", `"a";r=0;t=3600`),
		},
		{
			name: "with a list of its own", status: "429", upstream: []string{"ratelimit", `"theirs";r=0;t=1`},
			want: with(nil, "x-ratelimit-limit", "1", "x-ratelimit-remaining", "0", "x-ratelimit-reset", "3600",
				"ratelimit-policy", `"a";q=1;w=3600`, "ratelimit", `"theirs";r=0;t=1, "a";r=0;t=3600`),
		},
		{
			name: "without", status: "429",
			want: with(nil, "x-ratelimit-limit", "1", "x-ratelimit-remaining", "0", "x-ratelimit-reset", "3600",
				"ratelimit-policy", `"a";q=1;w=3600`, "ratelimit", `"a";r=0;t=3600`),
		},
		{
			name: "with another status", status: "503", upstream: []string{"x-ratelimit-limit", "7"},
			want: with(nil, "x-ratelimit-limit", "1", "x-ratelimit-remaining", "0", "x-ratelimit-reset", "3600",
				"ratelimit-policy", `"a";q=1;w=3600`, "ratelimit", `"a";r=0;t=3600`),
		},
	} {
		for terms, rule := range map[string]string{"": once, ", settled by its status": once +
			`, "settle": {"status": ["401"]}`} {
			t.Run(test.name+terms, func(t *testing.T) {
				t.Parallel()
				eachWorld(t, func(t *testing.T, w *worker) {
					i := w.load(`{"headers": ["x-ratelimit", "draft"], "rules": [{"name": "a", ` + rule + `}]}`)
					x := i.get("/")
					defer x.End()
					x.ResponseHeaders(wasmhost.Response(test.status, test.upstream...), true)
					expectHeaders(t, x.Downstream.Headers[1:], test.want)
				})
			})
		}
	}
}
