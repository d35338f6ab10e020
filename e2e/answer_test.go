package e2e

import (
	"errors"
	"fmt"
	"net/http"
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
