package e2e

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// foreignKeys: a list in an identity's key fails no call of it, and opens
// no breaker: it is limited as if there had been no key.
var foreignKeys = plain{
	name: "foreign keys of one identity",
	config: `{"rules": [{"name": "r", "key": [{"header": "x-k"}], "limits": [
		{"algorithm": "sliding_window_log", "limit": 5, "window": "1d"},
		{"algorithm": "gcra", "limit": 5, "window": "1d"}]}]}`,
	play: func(t *testing.T, s *setting) {
		for _, key := range []string{"{r|a}:sliding_window_log:1d", "{r|a}:gcra:1d"} {
			testenv.OK(t, s.client.RPush(ctx, s.prefix+key, "garbage").Err())
		}
		for _, identity := range []string{"a", "b"} {
			got := burst(t, 20, 4, []string{s.URL}, "x-k: "+identity)
			expectTally(t, identity, got, tally{200: 5, 429: 15})
		}
	},
}
