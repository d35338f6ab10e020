package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// failingRules are rules by header, each with a failure mode of its own, one that takes the
// configuration's, and shadow rules.
const failingRules = `"redis": {"cluster": "redis", "timeout": "2s"}, "failure": {"mode": "allow"}, "rules": [
	{"name": "d", "match": {"headers": {"x-d": {"present": true}}}, "failure": "deny",
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 2, "window": "1d"}]},
	{"name": "l", "match": {"headers": {"x-l": {"present": true}}}, "failure": "local",
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 2, "window": "1d"}]},
	{"name": "a", "match": {"headers": {"x-a": {"present": true}}},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 2, "window": "1d"}]},
	{"name": "s", "match": {"headers": {"x-s": {"present": true}}}, "mode": "shadow", "failure": "deny",
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 2, "window": "1d"}]}]}`

// TestFailureOfRules: without Redis each rule's failure mode is for its own checks. One
// that denies wins over one that allows, and what the embedded store rejects over both.
func TestFailureOfRules(t *testing.T) {
	t.Parallel()
	s := start(t, `{`+failingRules, envoytest.Options{})
	s.redis.Kill()
	for i, tc := range []struct {
		headers []string
		status  int
		outcome string
	}{
		{[]string{"x-a: 1"}, 200, "failed:allow"},
		{[]string{"x-d: 1"}, 503, "failed:deny"},
		{[]string{"x-a: 1", "x-d: 1"}, 503, "failed:deny"},
		{[]string{"x-s: 1"}, 200, "allowed"},
		{[]string{"x-s: 1", "x-a: 1"}, 200, "failed:allow"},
		{[]string{"x-l: 1", "x-d: 1"}, 503, "failed:deny"}, // and gives back what it charged
		{[]string{"x-l: 1"}, 200, "local:allowed"},
		{[]string{"x-l: 1", "x-a: 1"}, 200, "failed:allow"},
		{[]string{"x-l: 1"}, 429, "local:limited:l"},
		{[]string{"x-l: 1", "x-d: 1"}, 429, "local:limited:l"},
		{[]string{}, 200, "none"},
	} {
		s.wantOutcome(t, i, tc.status, tc.outcome, tc.headers...)
	}
}

// wantOutcome sends a request, the one after so many, and wants its status and outcome.
func (s *setting) wantOutcome(t *testing.T, before, status int, outcome string, headers ...string) {
	t.Helper()
	if r := get(t, s.URL, headers...); r.status != status {
		t.Errorf("%q: status %d, want %d", headers, r.status, status)
	}
	if got := s.LoggedAll(before + 1)[before].State; got != outcome {
		t.Errorf("%q: outcome %s, want %s", headers, got, outcome)
	}
}

// TestShadowConfiguration: the top-level shadow rejects no request and sets no header, counts in
// Redis, and says who would have been rejected; without Redis it changes nothing either.
func TestShadowConfiguration(t *testing.T) {
	t.Parallel()
	s := start(t, `{"mode": "shadow", `+failingRules, envoytest.Options{})
	for i := range 4 {
		r := get(t, s.URL, "x-d: 1")
		if header := r.header.Get("X-RateLimit-Limit"); r.status != http.StatusOK || header != "" {
			t.Errorf("request %d: status %d, limit %q", i, r.status, header)
		}
	}
	var states []string
	for _, entry := range s.LoggedAll(4) {
		states = append(states, entry.State)
	}
	if got := fmt.Sprint(states); got != "[allowed allowed shadow:d shadow:d]" {
		t.Errorf("outcomes %s", got)
	}
	testenv.Wait(t, patience, func() error {
		if n := s.client.Exists(ctx, "rl:{d|}:fixed_window:1d:first").Val(); n != 1 {
			return fmt.Errorf("%d keys in Redis, want 1", n)
		}
		return nil
	})
	s.redis.Kill()
	s.wantOutcome(t, 4, 200, "allowed", "x-d: 1")
}

// TestForeignKeysOfOneIdentity: a list in an identity's key fails no call of it, and opens
// no breaker: it is limited as if there had been no key.
func TestForeignKeysOfOneIdentity(t *testing.T) {
	t.Parallel()
	const limit = `"limits": [{"algorithm": "sliding_window_log", "limit": 5, "window": "1d"}, ` +
		`{"algorithm": "gcra", "limit": 5, "window": "1d"}]`
	s := start(t, `{"redis": {"cluster": "redis", "timeout": "2s"}, "rules": [{"name": "r", "key": [{"header": "x-k"}], `+
		limit+`}]}`, envoytest.Options{})
	for _, key := range []string{"rl:{r|a}:sliding_window_log:1d", "rl:{r|a}:gcra:1d"} {
		if err := s.client.RPush(ctx, key, "garbage").Err(); err != nil {
			t.Fatal(err)
		}
	}
	for _, identity := range []string{"a", "b"} {
		got := burst(t, 20, 4, []string{s.URL}, "x-k: "+identity)
		expectTally(t, identity, got, tally{200: 5, 429: 15})
	}
	s.wantOutcomes(t, 0, map[string]int{"allowed": 10, "limited:r": 30})
}
