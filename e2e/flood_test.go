package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
)

// growthKB is how much more memory Envoy may hold after the flood: usually none,
// but what V8 and the allocator keep may vary. A leak of 25 bytes a request shows.
const growthKB = 1_000

// TestMemoryStaysFlat sends 40,000 requests: admitted ones of ever new
// identities, ones that hammer a rejected identity, and ones of which one rule's
// charge is given back as another rejects.
func TestMemoryStaysFlat(t *testing.T) {
	s := start(t, `{"redis": {"cluster": "redis", "timeout": "10s"}, "failure": {"mode": "deny"}, `+bothHeaders+`"rules": [
		{"name": "new", "match": {"path": "/new"}, "key": [{"query": "u"}], "limits": [
			{"algorithm": "gcra", "limit": 5, "window": "1s"},
				{"algorithm": "sliding_window_counter", "limit": 100, "window": "1m"}]},
		{"name": "full", "match": {"path": {"prefix": "/full"}}, "key": [],
			"limits": [{"algorithm": "fixed_window", "limit": 1, `+long+`}]},
		{"name": "beside", "match": {"path": "/full/refund"}, "key": [{"query": "u"}], "limits": [
			{"algorithm": "token_bucket", "limit": 100, "window": "1s"}]}
	]}`, envoytest.Options{Quiet: true, Edit: func(c *envoyconf.Config) { // Envoy answers in the upstream's place
		c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/0/routes/0",
			c.Fragment(`{match: {prefix: "/"}, direct_response: {status: 200}}`))
	}})
	const warmUp, count = 20_000, 40_000
	urls := make([]string, warmUp+count)
	for i := range urls {
		urls[i] = fmt.Sprintf("%s%s?u=%d", s.URL, []string{"/new", "/full", "/full/refund", "/new"}[i%4], i)
	}
	burst(t, warmUp, 8, urls[:warmUp])
	before := s.ResidentKB()
	answers := burst(t, count, 8, urls[warmUp:])
	after := s.ResidentKB()

	expectTally(t, "the answers", answers, tally{http.StatusOK: count / 2, http.StatusTooManyRequests: count / 2})
	t.Logf("%d KB after %d requests, %d KB after %d more", before, warmUp, after, count)
	if after-before > growthKB {
		t.Errorf("%d KB more after %d requests, want %d at most", after-before, count, growthKB)
	}
}
