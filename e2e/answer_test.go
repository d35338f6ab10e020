package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// expectHeaders compares headers; "" wants a header to be absent.
func expectHeaders(t testing.TB, r reply, want map[string]string) {
	t.Helper()
	for name, value := range want {
		if got := strings.Join(r.header.Values(name), " & "); got != value {
			t.Errorf("%s: %q, want %q", name, got, value)
		}
	}
}

// TestShippedConfiguration: envoy.yaml as it is, which a user sees first.
func TestShippedConfiguration(t *testing.T) {
	t.Parallel()
	s := start(t, "", envoytest.Options{})
	var first reply
	var alice string
	tries := 0
	// A worker that has just started may take longer for its first check than the timeout as shipped.
	testenv.Wait(t, 30*time.Second, func() error {
		tries++
		alice = fmt.Sprintf("x-api-key: alice %d", tries)
		if first = get(t, s.URL+"/api/orders", alice); first.header.Get("x-ratelimit-limit") == "" {
			return errors.New("Redis has decided no request in time")
		}
		return nil
	})
	expectHeaders(t, first, map[string]string{
		"x-ratelimit-limit":     "5",
		"x-ratelimit-remaining": "4",
		"x-ratelimit-reset":     "1",
		"ratelimit-policy":      `"per-key-1s";q=5;w=5, "per-key-1h";q=100;w=3600, "per-address";q=20;w=2`,
	})
	testenv.Shows(t, "README.md", "ratelimit-policy: "+first.header.Get("ratelimit-policy")+"\n")
	ofKey, _, _ := strings.Cut(first.header.Get("ratelimit"), `"per-address"`) // others share the address
	testenv.Shows(t, "docs/internals.md", "ratelimit: "+ofKey)
	for range 4 {
		r := get(t, s.URL+"/api/orders", alice)
		testenv.Same(t, "status", r.status, http.StatusOK)
		testenv.Same(t, "body", r.body, "ok\n")
	}
	if r := get(t, s.URL+"/api/orders", "x-api-key: bob"); r.status != http.StatusOK {
		t.Errorf("another key: status %d", r.status)
	}
	exempt := get(t, s.URL+"/healthz")
	testenv.Same(t, "status of what is exempt", exempt.status, http.StatusOK)
	expectHeaders(t, exempt, map[string]string{"x-ratelimit-limit": ""})
}

// TestRejection holds the default answer against design and RFC 9457.
func TestRejection(t *testing.T) {
	t.Parallel()
	s := start(t, `{`+patient+`"headers": ["x-ratelimit", "draft"], "rules": [
		{"name": "minute", "match": {"path": {"prefix": "/two"}}, "limits": [
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1m", "name": "short"},
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1h", "name": "long"},
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": 9, "window": "1d", "name": "day"}]},
		{"name": "all", "match": {"path": {"prefix": "/two"}}, "limits": [
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "2h"}]}
	]}`, envoytest.Options{})
	if r := get(t, s.URL+"/two"); r.status != http.StatusOK {
		t.Fatalf("first: status %d", r.status)
	}
	before := s.snapshot(t)
	r := get(t, s.URL+"/two")
	if r.status != http.StatusTooManyRequests {
		t.Fatalf("second: status %d", r.status)
	}
	if after := s.snapshot(t); after != before {
		t.Errorf("a rejection changed Redis from\n%q to\n%q", before, after)
	}
	expectHeaders(t, r, map[string]string{
		"content-type":          "application/problem+json",
		"retry-after":           "7200",
		"x-ratelimit-limit":     "1",
		"x-ratelimit-remaining": "0",
		"ratelimit-policy":      `"short";q=1;w=60, "long";q=1;w=3600, "day";q=9;w=86400, "all";q=1;w=7200`,
		"ratelimit":             `"short";r=0;t=60, "long";r=0;t=3600, "day";r=8;t=86400, "all";r=0;t=7200`,
	})
	var problem map[string]any
	if err := json.Unmarshal([]byte(r.body), &problem); err != nil {
		t.Fatalf("body %q: %v", r.body, err)
	}
	if detail, _ := problem["detail"].(string); detail == "" {
		t.Errorf("no detail in %q", r.body)
	}
	delete(problem, "detail")
	want := map[string]any{
		"type":              "https://iana.org/assignments/http-problem-types#quota-exceeded",
		"title":             "Too Many Requests",
		"status":            429.0,
		"violated-policies": []any{"short", "long", "all"},
	}
	if !reflect.DeepEqual(problem, want) {
		t.Errorf("body %v, want %v", problem, want)
	}
	if n := s.upstream.Count(); n != 1 {
		t.Errorf("the upstream got %d requests, want 1", n)
	}
	entry := s.Logged("/two", 2)[1]
	testenv.Same(t, "filter state", entry.State, "limited:minute")
	testenv.Same(t, "response code details", entry.Details, "limited:minute")
}
