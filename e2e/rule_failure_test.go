package e2e

import (
	"maps"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestForeignKeysOfOneIdentity: a list in an identity's key fails no call of it, and opens
// no breaker: it is limited as if there had been no key.
func TestForeignKeysOfOneIdentity(t *testing.T) {
	t.Parallel()
	const limit = `"limits": [{"algorithm": "sliding_window_log", "limit": 5, "window": "1d"}, ` +
		`{"algorithm": "gcra", "limit": 5, "window": "1d"}]`
	s := start(t, `{"redis": {"cluster": "redis", "timeout": "2s"}, "rules": [{"name": "r", "key": [{"header": "x-k"}], `+
		limit+`}]}`, envoytest.Options{})
	for _, key := range []string{"rl:{r|a}:sliding_window_log:1d", "rl:{r|a}:gcra:1d"} {
		testenv.OK(t, s.client.RPush(ctx, key, "garbage").Err())
	}
	for _, identity := range []string{"a", "b"} {
		got := burst(t, 20, 4, []string{s.URL}, "x-k: "+identity)
		expectTally(t, identity, got, tally{200: 5, 429: 15})
	}
	s.wantOutcomes(t, 0, map[string]int{"allowed": 10, "limited:r": 30})
}

// wantOutcomes compares the outcomes of the requests that were logged after the first.
func (s *setting) wantOutcomes(t *testing.T, first int, want map[string]int) {
	t.Helper()
	got, sum := map[string]int{}, 0
	for _, n := range want {
		sum += n
	}
	for _, entry := range s.LoggedAll(first + sum)[first:] {
		got[entry.State]++
	}
	if !maps.Equal(got, want) {
		t.Errorf("outcomes %v, want %v", got, want)
	}
}
