package e2e

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// unitsComeBack: six times all connections are killed between requests. What the workers hold comes back when its ttl
// is over, with no request that would open a connection, so that Redis has charged exactly what was admitted.
func unitsComeBack(name, lease string, limit, want int) plain {
	return plain{
		name: "units come back " + name,
		config: fmt.Sprintf(`{%s"deny_cache": {"size": 0}, "rules": [
			{"name": "fence", "match": {"path": "/fence"}, "limits": [{"algorithm": "gcra", "limit": 1000000, "window": "1s"}]},
			{"name": "r", "match": {"not": {"path": "/fence"}},
			"limits": [{"algorithm": "fixed_window", "anchor": "first_request",
			"limit": %d, "window": "1d", "lease": %s}]}]}`, patient, limit, lease),
		own: redisWith(),
		play: func(t *testing.T, s *setting) {
			admitted := 0
			for n := range 6 {
				admitted += burst(t, limit/8, 8, []string{s.URL})[http.StatusOK]
				// A batch that is on its way is lost with the connection. Replies come in order: when the workers
				// have these, they have all before. They give nothing back before the ttl is over, a second.
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
				return atLeast(admitted, want, "requests were admitted")
			})
			admitted += burst(t, 200, 8, []string{s.URL})[http.StatusOK]
			testenv.Within(t, "requests that were admitted", admitted, want, limit)
		},
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
