package observe

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestReload replaces the configurations of three listeners. Each request stays
// counted once, the old configurations take their part out of the gauges, and the
// generation is that of the newest.
func TestReload(t *testing.T) {
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
	e := envoytest.Start(t, envoytest.Options{
		Plugin:   plugin("a", ample),
		Beside:   beside(ample),
		Redis:    []string{redistest.Start(t).Addr},
		Upstream: envoytest.NewUpstream(t, nil).Addr,
		Dynamic:  true,
	})
	for n := range reloads + 1 {
		client := newClient(t)
		for range each {
			for _, url := range []string{e.URL, e.Beside["b"], e.Beside["c"]} {
				client.get(url)
			}
		}
		want := map[string]int64{
			"config.generation":                          int64(listeners * (n + 1)),
			"outcome.allowed.requests_total":             int64(listeners * each * (n + 1)),
			"rule.a.outcome.allowed.rule_requests_total": int64(each * (n + 1)),
			"redis.state.closed.breaker_workers":         listeners, // each client's connections stay with one worker
			"redis.in_flight_requests":                   0,
		}
		testenv.Wait(t, promtest.Limit, func() error {
			stats := e.Stats("wasmcustom.sluice.")
			for name, value := range want {
				if got, ok := stats["wasmcustom.sluice."+name]; !ok || got != value {
					return fmt.Errorf("%s is %d, want %d", name, got, value)
				}
			}
			return nil
		})
		if n < reloads && !e.Reload(plugin("a", ample-n-1), beside(ample-n-1)) {
			t.Fatal("the configuration was refused")
		}
		client.http.CloseIdleConnections()
	}
}
