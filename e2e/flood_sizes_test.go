package e2e

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestFloodOfSizes: 12,000 requests, in one go, of which the worker sends Redis a part in time. What it
// decides of the others, in mode "allow", is compared with what Redis said last, whatever size the
// limit has for a request, and whatever a guarantee hid of its pool.
func TestFloodOfSizes(t *testing.T) {
	const connections = 12
	one := func(int, int) string { return "user-1" }
	for _, tc := range []struct {
		name, rule string
		user       func(connection, stream int) string
		want       int
	}{
		{
			name: "a window of three sizes",
			rule: `"key": [], "limits": [{"algorithm": "fixed_window", ` + long + `, "limit": ` + bySize + `}]`,
			user: func(_, stream int) string { return [...]string{"000005", "000010", "000020"}[stream%3] },
			want: 20,
		},
		{
			name: "a bucket of two bursts",
			rule: `"key": [], "limits": [{"algorithm": "gcra", ` + long + `, "limit": 20, "burst": ` + bySize + `}]`,
			user: func(_, stream int) string { return [...]string{"000010", "000011"}[stream%2] },
			want: 11,
		},
		{name: "one user within a guarantee", rule: guaranteed(1500, 1600), user: one, want: 1600},
		{
			name: "400 users within guarantees that do not fit", rule: guaranteed(5, 300),
			user: func(_, stream int) string { return fmt.Sprint("u", 10_000+stream%400) },
			want: 600,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := start(t, `{"redis": {"cluster": "redis", "timeout": "1s"}, "rules": [
				{"name": "r", `+tc.rule+`}]}`, envoytest.Options{Workers: 1})
			const admitted = "wasmcustom.sluice.outcome.allowed.requests_total"
			const undecided = "wasmcustom.sluice.outcome.failed_allow.requests_total"
			inOneGo(t, s, connections, tc.user)
			stats := s.Stats("wasmcustom.sluice.outcome.")
			testenv.Same(t, "requests that went on", stats[admitted]+stats[undecided], int64(tc.want))
			if t.Failed() {
				t.Log(s.Stats("wasmcustom.sluice."))
			}
		})
	}
}

// bySize is a number that comes with the request.
const bySize = `{"header": "x-user", "default": 5, "max": 500}`

// guaranteed is a rule with so much for each user, lent from a pool.
func guaranteed(each, pool int) string {
	return fmt.Sprintf(`"key": [], "limits": [
		{"name": "each", "per": [{"header": "x-user"}], "guarantee": true,
			"algorithm": "gcra", "limit": %d, "window": "100d"},
		{"name": "pool", "algorithm": "gcra", "limit": %d, "window": "100d"}]`, each, pool)
}
