package e2e

import (
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
)

// TestTiersHeardOfLate: Redis names the tier of a rule for whose limits others may pay. What the tier reads
// by an expression is the request's.
func TestTiersHeardOfLate(t *testing.T) {
	t.Parallel()
	s := start(t, `{"redis": {"cluster": "redis", "timeout": "3s"}, "rules": [
		{"name": "api", "key": [{"header": "x-user"}], "overrides": true, "over": {"limits": [
			{"algorithm": "fixed_window", "anchor": "first_request", "limit": 3, "window": "1d"}]}, "limits_by": {
			"default": "free", "values": {
			"free": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 500, "window": "1d"}],
			"pro": [{"algorithm": "fixed_window", "anchor": "first_request", "window": "1d",
				"limit": {"expr": "request.headers['x-claim']", "default": 500, "max": 1000}}]}}}]}`,
		envoytest.Options{Workers: 1})
	for _, user := range []string{"a", "bob", "carl-with-a-long-name"} {
		if err := s.client.Set(ctx, "rl:{api|"+user+"}:override", "tier:pro", 0).Err(); err != nil {
			t.Fatal(err)
		}
		got := burst(t, 200, 100, []string{s.URL + "/"}, "x-user: "+user, "x-claim: 7")
		expectTally(t, user, got, tally{http.StatusOK: 10, http.StatusTooManyRequests: 190})
	}
}
