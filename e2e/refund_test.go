package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestRejectionConsumesNothing: if one rule rejects, what another has charged is
// given back, under every algorithm, and the other's own limit stays exact.
func TestRejectionConsumesNothing(t *testing.T) {
	t.Parallel()
	rules := `{"name": "full", "match": {"headers": {"x-full": {"present": true}}}, ` +
		`"limits": [{"algorithm": "fixed_window", "limit": 1, ` + long + `}]}`
	for name, algorithm := range algorithms {
		rules += fmt.Sprintf(`, {"name": %q, "match": {"path": "/%s"}, "cost": 3,
			"limits": [{%s, "limit": 60, %s}, {"algorithm": "gcra", "limit": 60,
				"window": "300d"}]}`, name, name, algorithm, long)
	}
	s := start(t, `{`+patient+`"rules": [`+rules+`]}`, envoytest.Options{})
	get(t, s.URL, "x-full: 1")
	for name := range algorithms {
		t.Run(name, func(t *testing.T) {
			for range 4 {
				get(t, s.URL+"/"+name)
			}
			before := s.snapshot(t)
			if got := burst(t, 32, 8, []string{s.URL + "/" + name}, "x-full: 1"); got[http.StatusTooManyRequests] != 32 {
				t.Errorf("%v; want status 429 only", got)
			}
			testenv.Wait(t, patience, func() error { // refunds are not waited for
				if after := s.snapshot(t); after != before {
					return fmt.Errorf("Redis held\n%q, and holds\n%q", before, after)
				}
				return nil
			})
			got := burst(t, 22, 8, []string{s.URL + "/" + name})
			expectTally(t, "what was left", got, tally{http.StatusOK: 16, http.StatusTooManyRequests: 6})
		})
	}
}
