package e2e

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// settledOnce: by the final response, however often Envoy tries, or follows a
// redirect.
var settledOnce = plain{
	name: "settled once",
	config: `{"rules": [{"name": "r", "key": [{"header": "x-user"}], "cost": {"header": "x-cost", "default": 10},
		"limits": [{"algorithm": "sliding_window_log", "limit": 100, ` + long + `}],
		"settle": {"status": ["200"], "cost": {"header": "x-tokens", "max": 100}}}]}`,
	stores: bothStores,
	edit: func(t *testing.T, c *envoyconf.Config, _ string) {
		followRedirects(t, c, "")
		c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/all/routes/0/route/retry_policy",
			c.Fragment(`{retry_on: 5xx, num_retries: 2, retry_back_off: {base_interval: 0.001s}}`))
	},
	play: func(t *testing.T, s *setting) {
		var tries atomic.Int64
		s.upstream.Handle(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			switch {
			case r.URL.Path == "/moved":
				w.Header().Set("location", "http://"+r.Host+"/second")
				w.Header().Set("x-tokens", "50")
				w.WriteHeader(http.StatusFound)
			case r.URL.Path == "/retried" && tries.Add(1)%3 != 0:
				w.Header().Set("x-tokens", "70")
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				w.Header().Set("x-tokens", "3")
			}
		}))
		for _, path := range []string{"/moved", "/retried"} {
			testenv.Same(t, path+": status", get(t, s.URL+path, "x-user: "+path).status, http.StatusOK)
			awaitActive(t, s, 0)
			expectLeft(t, s.URL, 97, "x-user: "+path)
		}
	},
}

// TestSettlementsOutliveReloads: what is under way when the configuration is replaced is
// settled by the old one, whether the listener is replaced or the filter alone.
func TestSettlementsOutliveReloads(t *testing.T) {
	t.Parallel()
	config := func(limit int, keeps string) string {
		return fmt.Sprintf(`{%s"rules": [{"name": "r", "key": [{"header": "x-user"}],
			"cost": {"header": "x-cost", "default": 1},
			"limits": [{"algorithm": "sliding_window_log", "limit": %d, %s}],
				"settle": {"status": [%q]}}]}`, patient, limit, long, keeps)
	}
	for name, opts := range map[string]envoytest.Options{"listener": {Dynamic: true}, "filter": {Discovered: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t, config(1000, "401"), opts)
			s.upstream.Handle(http.HandlerFunc(obedient))
			const requests = 60
			var group sync.WaitGroup
			for i := range requests {
				group.Go(func() {
					client := newClient()
					defer client.CloseIdleConnections()
					status := []string{"200", "401", "200"}[i%3]
					r, err := send(ctx, client, s.URL, "x-user: u", "x-pause: 1s", "x-status: "+status)
					if err != nil || fmt.Sprint(r.status) != status {
						t.Errorf("%v, status %d, want %s", err, r.status, status)
					}
				})
			}
			testenv.Wait(t, patience, func() error {
				return atLeast(s.upstream.Count(), requests, "requests with the upstream")
			})
			if opts.Discovered {
				s.Discover(config(2000, "200"))
			} else {
				testenv.Same(t, "that the configuration is taken", s.Reload(config(2000, "200"), nil), true)
			}
			group.Wait()
			shared.CloseIdleConnections()
			expectLeft(t, s.URL, 2000-requests/3, "x-user: u")
		})
	}
}

// settlementsWithoutRedis: a Redis that dies between reservation and settlement has
// lost nothing that was charged: what cannot be settled stays reserved, and is counted.
var settlementsWithoutRedis = plain{
	name: "settlements without Redis",
	config: `{"redis": {"cluster": "redis", "timeout": "5s"},
		"rules": [{"name": "r", "key": [{"header": "x-user"}], "cost": {"header": "x-cost", "default": 10},
		"limits": [{"algorithm": "sliding_window_log", "limit": 100, ` + long + `}], "settle": {"status": ["401"]}}]}`,
	worker: true,
	own:    redisWith("--appendonly", "yes", "--appendfsync", "always"),
	play: func(t *testing.T, s *setting) {
		answer := make(chan struct{})
		s.upstream.Handle(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.Header.Get("x-wait") != "" {
				<-answer
			}
		}))
		var group sync.WaitGroup
		for range 3 {
			group.Go(func() { get(t, s.URL, "x-user: u", "x-wait: yes") })
		}
		testenv.Wait(t, patience, func() error { return atLeast(s.upstream.Count(), 3, "requests with the upstream") })
		s.redis.Kill()
		close(answer)
		group.Wait()
		testenv.Wait(t, patience, func() error {
			const lost = "wasmcustom.sluice.redis.event.lost.settlements_total" // no other test of this Envoy loses any
			if n := s.Stats(lost)[lost]; n != 3 {
				return fmt.Errorf("%d settlements are counted as lost, want 3", n)
			}
			return nil
		})
		s.redis.Restart()
		expectLeft(t, s.URL, 70, "x-user: u")
	},
}
