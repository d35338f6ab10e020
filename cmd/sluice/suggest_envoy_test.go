package main

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/simulate"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestSuggestedOnEnvoy replays a log on a real Envoy, with limits that suggest has found in it: each
// refuses requests of as many customers as suggest says, to within 1 %. The windows are so long that
// it does not matter how fast the machine is.
func TestSuggestedOnEnvoy(t *testing.T) {
	t.Parallel()
	const limits = `{"rules": [{"name": "per-key", "key": [{"header": "x-api-key"}], "limits": [
		{"algorithm": "sliding_window_log", "limit": 1, "window": "1d"},
		{"algorithm": "gcra", "limit": 1, "window": "366d", "burst": 1},
		{"algorithm": "fixed_window", "limit": 1, "window": "1d", "anchor": "first_request"}]}]}`
	log := write(t, "access.log", accessLog())
	r := execute(t, limits, "suggest", "per-key", "-c", "-", "--log", log, "-o", "json")
	found := decode[struct{ Limits []simulate.Suggestion }](t, r).Limits
	if len(found) != 3 {
		t.Fatalf("%d suggestions: %s", len(found), r.errors)
	}
	replays := []struct {
		name, limit string
		refused     float64 // the share of customers
	}{
		{"p90", fmt.Sprintf(`"algorithm": "sliding_window_log", "limit": %d, "window": "1d"`, found[0].P90), 0.1},
		{"p99", fmt.Sprintf(`"algorithm": "gcra", "limit": %d, "burst": %[1]d, "window": "366d"`, found[1].P99), 0.01},
		{
			"suggested", fmt.Sprintf(`"algorithm": "fixed_window", "limit": %d, "window": "1d", "anchor": "first_request"`,
				found[2].Suggested), 0.001,
		},
	}
	var rules []string
	for _, c := range replays {
		rules = append(rules, fmt.Sprintf(`{"name": %q, "match": {"path": {"prefix": "/%[1]s/"}},
			"key": [{"header": "x-api-key"}], "limits": [{%s}]}`, c.name, c.limit))
	}
	server := redistest.Start(t)
	envoy := envoytest.Start(t, envoytest.Options{
		Redis: []string{server.Addr}, Upstream: envoytest.NewUpstream(t, nil).Addr, Quiet: true,
		Plugin: `{"redis": {"cluster": "redis", "timeout": "30s"}, "failure": {"mode": "deny"}, "rules": [` +
			strings.Join(rules, ", ") + `]}`,
	})
	for _, c := range replays {
		share := float64(refused(t, envoy.URL+"/"+c.name+"/")) / customers
		testenv.Within(t, "the share of customers refused by "+c.name, share, c.refused-0.01, c.refused+0.01)
		if share == 0 {
			t.Errorf("%s refuses no request", c.name)
		}
	}
}

// refused sends what the customers send, and counts those of whom a request is refused.
func refused(t *testing.T, url string) int64 {
	t.Helper()
	const connections = 16
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	plain, err := http.NewRequest(http.MethodGet, url, http.NoBody)
	testenv.OK(t, err)
	var group sync.WaitGroup
	var count atomic.Int64
	for first := range connections {
		group.Go(func() {
			for n := first; n < customers; n += connections {
				statuses := map[int]int{}
				for range requestsOf(n) {
					req := plain.Clone(t.Context())
					req.Header.Set("x-api-key", fmt.Sprintf("k%d", n))
					resp, err := client.Do(req)
					if err != nil {
						t.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					statuses[resp.StatusCode]++
				}
				limited := statuses[http.StatusTooManyRequests]
				testenv.Same(t, "the other answers, 200,", statuses[http.StatusOK], requestsOf(n)-limited)
				if limited > 0 {
					count.Add(1)
				}
			}
		})
	}
	group.Wait()
	return count.Load()
}
