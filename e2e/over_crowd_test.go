package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// crowdRules are for users by how their name begins: one whose contract says 25, one whose requests go
// on with a header, and one for whom credits of 50 pay.
const crowdRules = `{` + patient + `"rules": [
	{"name": "known", "match": {"headers": {"x-user": {"prefix": "k"}}}, "key": [{"header": "x-user"}],
		"overrides": true, "limits": [` + ten + `]},
	{"name": "free", "match": {"headers": {"x-user": {"prefix": "f"}}}, "key": [{"header": "x-user"}],
		"over": {"set_headers": {"x-quota": "over"}}, "limits": [` + ten + `]},
	{"name": "paid", "match": {"headers": {"x-user": {"prefix": "p"}}}, "key": [{"header": "x-user"}],
		"over": {"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 50, ` + long + `}]},
		"limits": [` + ten + `]}]}`

const ten = `{"algorithm": "fixed_window", "anchor": "first_request", "limit": 10, ` + long + `}`

// TestCrowdIsOver: thousands of requests of one user, in one go, of whom the worker has not heard: by
// its contract, over its limit, or paid for, each gets what Redis says.
func TestCrowdIsOver(t *testing.T) {
	t.Parallel()
	s := start(t, crowdRules, envoytest.Options{Workers: 1, Edit: economy})
	s.contract(t, "known|k-user", "limits:known=25")
	awaitDecided(t, s)
	const connections, all = 4, 4000
	for _, tc := range []struct {
		user     string
		outcomes map[string]int64
	}{
		{"k-user", map[string]int64{"allowed": 25, "limited": all - 25}},
		{"f-user", map[string]int64{"allowed": 10, "over": all - 10}},
		{"p-user", map[string]int64{"allowed": 10, "over": 50, "limited": all - 60}},
	} {
		before := s.outcomes()
		inOneGo(t, s, connections, func(int, int) string { return tc.user })
		after := s.outcomes()
		for outcome, n := range after {
			testenv.Same(t, fmt.Sprintf("%s: %s", tc.user, outcome), n-before[outcome], tc.outcomes[outcome])
		}
	}
}

// outcomes is how many requests had each, of all rules.
func (s *setting) outcomes() map[string]int64 {
	all := map[string]int64{}
	for name, n := range s.Stats("wasmcustom.sluice.outcome.") {
		name, _ = strings.CutPrefix(name, "wasmcustom.sluice.outcome.")
		all[strings.TrimSuffix(name, ".requests_total")] = n
	}
	return all
}
