package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestLeasedUnitsSurvive: units that a worker holds are not lost when its configuration is replaced.
func TestLeasedUnitsSurvive(t *testing.T) {
	t.Parallel()
	leased := func(generation int) string { // another rule, that no request meets, tells configurations apart
		return fmt.Sprintf(`{%s"rules": [
			{"name": "r", "match": {"path": "/leased"},
				"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1000, "window": "1d",
				"lease": {"units": 100, "ttl": "5s"}}]},
			{"name": "generation", "match": {"path": "/generation"}, "cost": 0,
				"limits": [{"algorithm": "gcra", "limit": %d, "window": "1h"}]}]}`,
			patient, generation)
	}
	s := start(t, leased(1), envoytest.Options{Dynamic: true})
	admitted := 0
	for n := range 10 {
		admitted += burst(t, 120, 8, []string{s.URL + "/leased"})[http.StatusOK]
		if !s.Reload(leased(2+n), nil) {
			t.Fatalf("update %d was refused", n)
		}
		awaitLimit(t, s.URL+"/generation", 2+n)
	}
	testenv.Wait(t, 2*patience, func() error { // units return after their time
		admitted += burst(t, 100, 8, []string{s.URL + "/leased"})[http.StatusOK]
		return atLeast(admitted, 990, "requests were admitted")
	})
	admitted += burst(t, 200, 8, []string{s.URL + "/leased"})[http.StatusOK]
	testenv.Within(t, "the number of requests that were admitted", admitted, 990, 1000)
}

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
