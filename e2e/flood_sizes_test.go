package e2e

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestFloodOfSizes: 12,000 requests, in one go, of which the worker sends Redis a part in time. What it
// decides of the others, in mode "allow", is compared with what Redis said last, whatever size the
// limit has for a request, and whatever a guarantee hid of its pool.
func TestFloodOfSizes(t *testing.T) {
	const connections = 12
	floods := []struct {
		name, rule string
		user       func(connection, stream int) string
		want       int64
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
		{
			name: "400 users within guarantees that do not fit",
			rule: `"key": [], "limits": [
				{"name": "each", "per": [{"header": "x-user"}], "guarantee": true,
					"algorithm": "gcra", "limit": 5, "window": "100d"},
				{"name": "pool", "algorithm": "gcra", "limit": 300, "window": "100d"}]`,
			user: func(_, stream int) string { return fmt.Sprint("u", 10_000+stream%400) },
			want: 600,
		},
	}
	beside := map[string]string{}
	for i, tc := range floods {
		beside[tc.name] = fmt.Sprintf(`{"redis": {"cluster": "redis", "timeout": "1s"}, "rules": [{"name": "r%d", %s}]}`,
			i, tc.rule)
	}
	s := start(t, `{"rules": [{"name": "r", `+hundred+`}]}`, envoytest.Options{Workers: 1, Beside: beside})
	for _, tc := range floods {
		wentOn := func() int64 {
			stats := s.Stats("wasmcustom.sluice.outcome.")
			return stats["wasmcustom.sluice.outcome.allowed.requests_total"] +
				stats["wasmcustom.sluice.outcome.failed_allow.requests_total"]
		}
		before := wentOn()
		inOneGo(t, s, strings.TrimPrefix(s.Beside[tc.name], "http://"), connections, tc.user)
		testenv.Same(t, tc.name+": requests that went on", wentOn()-before, tc.want)
	}
	if t.Failed() {
		t.Log(s.Stats("wasmcustom.sluice."))
	}
}

// bySize is a number that comes with the request.
const bySize = `{"header": "x-user", "default": 5, "max": 500}`
