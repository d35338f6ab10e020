package e2e

import (
	"net/http"
	"testing"
)

// leasedUnitsBeforeRejections: a worker that has units spends them,
// whatever Redis has rejected meanwhile.
var leasedUnitsBeforeRejections = plain{
	name: "leased units before remembered rejections",
	config: `{"rules": [{"name": "r",
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 100, "window": "1d",
		"lease": {"units": 50, "ttl": "1m"}}]}]}`,
	worker: true,
	play: func(t *testing.T, s *setting) {
		got := burst(t, 400, 64, []string{s.URL})
		expectTally(t, "a crowd", got, tally{http.StatusOK: 100, http.StatusTooManyRequests: 300})
	},
}
