package e2e

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestReloadIsCounted replaces the configurations of three listeners. Each request stays
// counted once, the old configurations take their part out of the gauges, and the
// generation is that of the newest.
func TestReloadIsCounted(t *testing.T) {
	t.Parallel()
	const listeners, reloads, each = 3, 3, 40
	plugin := func(rule string, limit int) string {
		return fmt.Sprintf(`{"redis": {"cluster": "redis", "timeout": "10s"}, `+
			`"rules": [{"name": %q, "limits": [{%s, "limit": %d}]}]}`, rule, ever, limit)
	}
	beside := func(limit int) map[string]string {
		return map[string]string{"b": plugin("b", limit), "c": plugin("c", limit)}
	}
	const ample = 1_000_000
	s := start(t, plugin("a", ample), envoytest.Options{Beside: beside(ample), Dynamic: true})
	for n := range reloads + 1 {
		for range each {
			for _, url := range []string{s.URL, s.Beside["b"], s.Beside["c"]} {
				get(t, url)
			}
		}
		want := map[string]int64{
			"config.generation":                          int64(listeners * (n + 1)),
			"outcome.allowed.requests_total":             int64(listeners * each * (n + 1)),
			"rule.a.outcome.allowed.rule_requests_total": int64(each * (n + 1)),
			"redis.state.closed.breaker_workers":         listeners, // a connection to each, and so one worker
			"redis.in_flight_requests":                   0,
		}
		testenv.Wait(t, promtest.Limit, func() error {
			stats := s.Stats("wasmcustom.sluice.")
			for name, value := range want {
				if got, ok := stats["wasmcustom.sluice."+name]; !ok || got != value {
					return fmt.Errorf("%s is %d, want %d", name, got, value)
				}
			}
			return nil
		})
		if n < reloads && !s.Reload(plugin("a", ample-n-1), beside(ample-n-1)) {
			t.Fatal("the configuration was refused")
		}
		shared.CloseIdleConnections()
	}
}
