package e2e

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// limitHeaders are all that Sluice may set, with what an upstream says in them.
var upstreamSays = map[string]string{
	"X-RateLimit-Limit": "up-1", "X-RateLimit-Remaining": "up-2", "X-RateLimit-Reset": "up-3",
	"RateLimit": "up-4", "RateLimit-Policy": "up-5",
}

// TestUpstreamHeaders: what Sluice sets replaces the upstream's, and nothing else.
func TestUpstreamHeaders(t *testing.T) {
	t.Parallel()
	upstream := envoytest.NewUpstream(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range upstreamSays {
			w.Header().Add(name, value)
			w.Header().Add(name, value+"-again")
		}
		w.WriteHeader(http.StatusTeapot)
	}))
	kept := func(name string) string { return upstreamSays[name] + " & " + upstreamSays[name] + "-again" }
	for headers, want := range map[string]map[string]string{
		`[]`: {
			"X-RateLimit-Limit": kept("X-RateLimit-Limit"), "X-RateLimit-Remaining": kept("X-RateLimit-Remaining"),
			"X-RateLimit-Reset": kept("X-RateLimit-Reset"), "RateLimit": kept("RateLimit"),
			"RateLimit-Policy": kept("RateLimit-Policy"),
		},
		`["x-ratelimit"]`: {
			"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "9", "X-RateLimit-Reset": "360",
			"RateLimit": kept("RateLimit"), "RateLimit-Policy": kept("RateLimit-Policy"),
		},
		`["draft"]`: {
			"X-RateLimit-Limit": kept("X-RateLimit-Limit"), "X-RateLimit-Remaining": kept("X-RateLimit-Remaining"),
			"X-RateLimit-Reset": kept("X-RateLimit-Reset"), "RateLimit": `"r";r=9;t=3240`, "RateLimit-Policy": `"r";q=10;w=3600`,
		},
		`["draft", "x-ratelimit"]`: {
			"X-RateLimit-Limit": "10", "X-RateLimit-Remaining": "9", "X-RateLimit-Reset": "360",
			"RateLimit": `"r";r=9;t=3240`, "RateLimit-Policy": `"r";q=10;w=3600`,
		},
	} {
		t.Run(headers, func(t *testing.T) {
			s := start(t, `{`+patient+`"headers": `+headers+`, "rules": [{"name": "r", "match": {"path": "/limited"}, "limits": [
				{"algorithm": "token_bucket", "limit": 10, "window": "1h"}]}]}`, envoytest.Options{Upstream: upstream.Addr})
			r := get(t, s.URL+"/limited")
			if r.status != http.StatusTeapot {
				t.Errorf("status %d, want the upstream's", r.status)
			}
			expectHeaders(t, r, want)
			for name := range upstreamSays {
				expectHeaders(t, get(t, s.URL+"/other"), map[string]string{name: kept(name)})
			}
		})
	}
}

// TestResetUnix: the reset is a time, on 200s and on 429s.
func TestResetUnix(t *testing.T) {
	t.Parallel()
	s := start(t, `{`+patient+`"reset": "unix", "rules": [{"name": "r", "limits": [
		{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1h"}]}]}`, envoytest.Options{})
	begin := time.Now()
	for _, status := range []int{http.StatusOK, http.StatusTooManyRequests} {
		r := get(t, s.URL)
		if r.status != status {
			t.Fatalf("status %d, want %d", r.status, status)
		}
		reset, err := strconv.ParseInt(r.header.Get("x-ratelimit-reset"), 10, 64)
		earliest, latest := begin.Add(time.Hour).Unix(), time.Now().Add(time.Hour).Unix()+1
		if err != nil {
			t.Error(err)
		}
		if reset < earliest || reset > latest {
			t.Errorf("reset %d, want %d to %d", reset, earliest, latest)
		}
	}
}

// TestCustomResponse: it replaces the 429 and nothing but the 429.
func TestCustomResponse(t *testing.T) {
	t.Parallel()
	s := start(t, `{`+patient+`"response": {"status": 403, "content_type": "application/json",
		"body": "{\"error\":\"slow down\"}",
		"headers": {"x-reason": "quota"}}, "rules": [{"name": "r", "key": [{"header": "x-user"}],
			`+oneLimit+`}]}`, envoytest.Options{})
	r := get(t, s.URL, "x-user: ann")
	testenv.Same(t, "first: status", r.status, http.StatusOK)
	expectHeaders(t, r, map[string]string{"x-reason": ""})
	r = get(t, s.URL, "x-user: ann")
	testenv.Same(t, "second: status", r.status, http.StatusForbidden)
	testenv.Same(t, "second: body", r.body, `{"error":"slow down"}`)
	expectHeaders(t, r, map[string]string{
		"content-type": "application/json", "x-reason": "quota", "retry-after": "3600", "x-ratelimit-limit": "1",
		"x-ratelimit-remaining": "0",
	})
	s.redis.Kill()
	r = get(t, s.URL, "x-user: bob")
	testenv.Same(t, "without Redis: status", r.status, http.StatusServiceUnavailable)
	expectHeaders(t, r, map[string]string{"x-reason": "", "retry-after": "1"})
	if !strings.Contains(r.body, "#temporary-reduced-capacity") {
		t.Errorf("without Redis: body %q", r.body)
	}
}

// grpcStatus sends a gRPC request as a client does, over HTTP/2 without TLS, and
// returns the status it reads: from the headers of an answer without a body.
func grpcStatus(t *testing.T, url, user string) (grpcStatus string, resp *http.Response) {
	t.Helper()
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	client := &http.Client{Timeout: patience, Transport: &http.Transport{Protocols: protocols}}
	defer client.CloseIdleConnections()
	// An empty message: the flag, and a length of 0.
	req, err := http.NewRequestWithContext(context.Background(), http.MethodPost, url,
		strings.NewReader("\x00\x00\x00\x00\x00"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc+proto")
	req.Header.Set("Te", "trailers")
	req.Header.Set("X-User", user)
	resp, err = client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if status := resp.Header.Get("Grpc-Status"); status != "" && len(body) > 0 {
		t.Errorf("a body of %q after status %s", body, status)
	}
	return resp.Header.Get("Grpc-Status"), resp
}

// TestGRPC: a rejection is RESOURCE_EXHAUSTED, a failure UNAVAILABLE.
func TestGRPC(t *testing.T) {
	t.Parallel()
	s := start(t, `{`+patient+`"rules": [{"name": "r", "key": [{"header": "x-user"}], `+oneLimit+`}]}`,
		envoytest.Options{})
	status, resp := grpcStatus(t, s.URL+"/service/Method", "ann")
	testenv.Same(t, "first, by the upstream: gRPC status", status, "")
	testenv.Same(t, "first, by the upstream: HTTP status", resp.StatusCode, http.StatusOK)
	status, resp = grpcStatus(t, s.URL+"/service/Method", "ann")
	testenv.Same(t, "second: gRPC status", status, "8")
	testenv.Same(t, "second: HTTP status", resp.StatusCode, http.StatusOK)
	testenv.Same(t, "second: content-type", resp.Header.Get("Content-Type"), "application/grpc")
	testenv.Same(t, "second: remaining", resp.Header.Get("X-Ratelimit-Remaining"), "0")
	s.redis.Kill()
	if status, _ := grpcStatus(t, s.URL+"/service/Method", "bob"); status != "14" {
		t.Errorf("without Redis: gRPC status %q, want 14", status)
	}
}
