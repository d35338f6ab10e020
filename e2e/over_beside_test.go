package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

const limitedStatus = http.StatusTooManyRequests

// TestOverBesideOthers: a block is a 429, an override changes the limit that a request is over, and
// in shadow nothing is set.
func TestOverBesideOthers(t *testing.T) {
	t.Parallel()
	const rule = `"rules": [{"name": "quota", "key": [{"header": "x-user"}], "overrides": true,
		"over": {"set_headers": {"x-quota": "over"}},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1d"}]}]}`
	s := start(t, `{`+patient+rule, envoytest.Options{
		Edit: economy, Beside: map[string]string{"shadow": `{"mode": "shadow", ` + strings.Replace(patient, `"redis": {`,
			`"redis": {"key_prefix": "shadow", `, 1) + rule},
	})
	for _, tc := range []struct {
		override string
		statuses []int
		outcome  string // of the last request
	}{
		{"", []int{200, economyStatus, economyStatus}, "over:quota"},
		{"limits:quota=2", []int{200, 200, economyStatus}, "over:quota"},
		{"block", []int{429, 429}, "blocked:quota"},
		{"free", []int{200, 200}, "allowed"},
	} {
		user := "u" + tc.override
		if tc.override != "" {
			if err := s.client.Set(ctx, "rl:{quota|"+user+"}:override", tc.override, 0).Err(); err != nil {
				t.Fatal(err)
			}
		}
		logged := len(s.LoggedAll(0))
		for i, status := range tc.statuses {
			what := fmt.Sprintf("%q, request %d: status", tc.override, i)
			testenv.Same(t, what, get(t, s.URL, "x-user: "+user).status, status)
		}
		last := len(tc.statuses) - 1
		testenv.Same(t, tc.override+": the outcome", s.LoggedAll(logged + last + 1)[logged+last].State, tc.outcome)
	}
	logged := len(s.LoggedAll(0))
	for range 2 {
		testenv.Same(t, "in shadow: status", get(t, s.Beside["shadow"], "x-user: u").status, http.StatusOK)
	}
	testenv.Same(t, "in shadow: the outcome", s.LoggedAll(logged + 2)[logged+1].State, "shadow:quota")
}
