package e2e

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestUnitsComeBackWhileTheConnectionIsAway: six times all connections are killed between
// requests. What the workers hold comes back when its ttl is over, with no request that
// would open a connection, so that Redis has charged exactly what was admitted.
func TestUnitsComeBackWhileTheConnectionIsAway(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		lease       string
		limit, want int
	}{
		{lease: `{"units": 100, "ttl": "200ms"}`, limit: 1000, want: 990},
		{lease: `{"ttl": "200ms"}`, limit: 3000, want: 2970},
	} {
		t.Run(tc.lease, func(t *testing.T) {
			t.Parallel()
			s := start(t, fmt.Sprintf(`{%s"deny_cache": {"size": 0}, "rules": [
				{"name": "fence", "match": {"path": "/fence"}, "limits": [{"algorithm": "gcra", "limit": 1000000, "window": "1s"}]},
				{"name": "r", "match": {"not": {"path": "/fence"}},
				"limits": [{"algorithm": "fixed_window", "anchor": "first_request",
				"limit": %d, "window": "1d", "lease": %s}]}]}`, patient, tc.limit, tc.lease), envoytest.Options{})
			admitted := 0
			for n := range 6 {
				admitted += burst(t, tc.limit/8, 8, []string{s.URL})[http.StatusOK]
				// A batch that is on its way to the worker is lost with the connection. Replies come in order:
				// when the workers have these, they have all before.
				burst(t, 64, 16, []string{s.URL + "/fence"})
				testenv.OK(t, s.client.Do(ctx, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
				testenv.Wait(t, patience, func() error {
					if got := s.chargedInWindow(t); got != admitted {
						return fmt.Errorf("after %d kills Redis has charged %d, want the %d that were admitted", n+1, got, admitted)
					}
					return nil
				})
			}
			testenv.Wait(t, 2*patience, func() error {
				admitted += burst(t, 100, 8, []string{s.URL})[http.StatusOK]
				return atLeast(admitted, tc.want, "requests were admitted")
			})
			admitted += burst(t, 200, 8, []string{s.URL})[http.StatusOK]
			if admitted > tc.limit {
				t.Errorf("%d requests were admitted, want %d at most", admitted, tc.limit)
			}
		})
	}
}

// chargedInWindow returns what Redis has counted in the one window that begins with its first request:
// the last four bytes of the state.
func (s *setting) chargedInWindow(t *testing.T) int {
	t.Helper()
	keys, err := s.client.Keys(ctx, "*:fixed_window:1d:first").Result()
	if err != nil || len(keys) != 1 {
		t.Fatalf("keys %q, %v", keys, err)
	}
	state, err := s.client.Get(ctx, keys[0]).Bytes()
	if err != nil || len(state) < 4 {
		t.Fatalf("the state is %q, %v", state, err)
	}
	return int(binary.LittleEndian.Uint32(state[len(state)-4:]))
}
