package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// leased is a configuration with one leased limit of 1000, and another rule that
// no request of the tests meets, which tells configurations apart.
func leased(generation int) string {
	return fmt.Sprintf(`{%s"rules": [
		{"name": "r", "match": {"path": "/leased"},
			"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1000, "window": "1d",
			"lease": {"units": 100, "ttl": "5s"}}]},
		{"name": "generation", "match": {"path": "/generation"}, "cost": 0,
			"limits": [{"algorithm": "gcra", "limit": %d, "window": "1h"}]}]}`,
		patient, generation)
}

// TestLeasedUnitsSurvive: units that a worker holds are not lost when its
// connection to Redis is replaced, or its configuration.
func TestLeasedUnitsSurvive(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		times   int // each after a burst
		burst   int
		disturb func(t *testing.T, s *setting, n int)
	}{
		{name: "lost connections", times: 3, burst: 200, disturb: killConnections},
		{name: "updates", times: 10, burst: 120, disturb: func(t *testing.T, s *setting, n int) {
			if !s.Reload(leased(2+n), nil) {
				t.Fatalf("update %d was refused", n)
			}
			awaitGeneration(t, s, 2+n)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := start(t, leased(1), envoytest.Options{Dynamic: true})
			admitted := 0
			for n := range tc.times {
				admitted += burst(t, tc.burst, 8, []string{s.URL + "/leased"})[http.StatusOK]
				tc.disturb(t, s, n)
			}
			t.Logf("%d of %d admitted before the units had time to return", admitted, tc.times*tc.burst)
			testenv.Wait(t, 2*patience, func() error { // units return after their time
				admitted += burst(t, 100, 8, []string{s.URL + "/leased"})[http.StatusOK]
				return atLeast(admitted, 990, "requests were admitted")
			})
			admitted += burst(t, 200, 8, []string{s.URL + "/leased"})[http.StatusOK]
			if admitted > 1000 {
				t.Errorf("%d requests were admitted, want 1000 at most", admitted)
			}
		})
	}
}

// killConnections ends every connection of the workers to Redis.
func killConnections(t *testing.T, s *setting, _ int) {
	t.Helper()
	if err := s.client.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err(); err != nil {
		t.Fatal(err)
	}
}

// awaitGeneration returns when answers come from a configuration of leased.
func awaitGeneration(t *testing.T, s *setting, generation int) {
	t.Helper()
	testenv.Wait(t, patience, func() error {
		client := newClient() // a connection that is kept open belongs to the old listener
		defer client.CloseIdleConnections()
		r, err := send(ctx, client, s.URL+"/generation")
		if err != nil {
			return err
		}
		if got := r.header.Get("x-ratelimit-limit"); got != fmt.Sprint(generation) {
			return fmt.Errorf("limit %q, want %d", got, generation)
		}
		return nil
	})
}

// TestLeasedUnitsBeforeRememberedRejections: a worker that has units spends them,
// whatever Redis has rejected meanwhile.
func TestLeasedUnitsBeforeRememberedRejections(t *testing.T) {
	t.Parallel()
	s := start(t, `{`+patient+`"rules": [{"name": "r",
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 100, "window": "1d",
		"lease": {"units": 50, "ttl": "1m"}}]}]}`, envoytest.Options{Workers: 1})
	got := burst(t, 400, 64, []string{s.URL})
	expectTally(t, "a crowd", got, tally{http.StatusOK: 100, http.StatusTooManyRequests: 300})
}
