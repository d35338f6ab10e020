package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestSharpenedLeases: two Envoys of two workers, whose leases sharpen, admit a limit to
// within 1 %, and never more, with few commands for Redis.
func TestSharpenedLeases(t *testing.T) {
	t.Parallel()
	const limit, workers, ttl = 10_000, 4, 200 * time.Millisecond
	server := redistest.Start(t)
	plugin := fmt.Sprintf(`{%s"rules": [
		{"name": "window", "match": {"path": "/window"}, "limits": [{"algorithm": "fixed_window", "anchor": "first_request",
			"limit": %d, "window": "1h", "lease": {"ttl": %q}}]},
		{"name": "bucket", "match": {"path": "/bucket"}, "limits": [{"algorithm": "gcra", "limit": 1, "burst": %[2]d,
			"window": "1h", "lease": {"ttl": %[3]q}}]}]}`, // nothing to speak of comes back
		patient, limit, ttl)
	opts := envoytest.Options{Redis: []string{server.Addr}, Quiet: true}
	envoys, client := [2]*setting{start(t, plugin, opts), start(t, plugin, opts)}, server.Client()
	for _, path := range []string{"/window", "/bucket"} {
		before, began := scripts(t, client), time.Now()
		var (
			admitted atomic.Int64
			group    sync.WaitGroup
		)
		for _, e := range envoys {
			group.Go(func() {
				got := burst(t, limit*3/4, 16, []string{e.URL + path})
				admitted.Add(int64(got[http.StatusOK]))
			})
		}
		group.Wait()
		// Whoever has few requests in a ttl takes units and returns them for these few: a machine
		// that is slow needs more commands.
		commands, ttls := scripts(t, client)-before, int(time.Since(began)/ttl)
		t.Logf("%s: %d of %d admitted, %d commands", path, admitted.Load(), limit, commands)
		testenv.Within(t, path+": admitted", admitted.Load(), limit*99/100, limit)
		testenv.Within(t, path+": commands for Redis", commands, 0, limit/3+3*workers*ttls)
	}
}

// scripts is how many scripts Redis has been asked to run.
func scripts(t *testing.T, client *redis.Client) (n int) {
	t.Helper()
	info, err := client.Info(ctx, "commandstats").Result()
	testenv.OK(t, err)
	for line := range strings.Lines(info) {
		var calls int
		for _, command := range []string{"eval", "evalsha"} {
			if _, err := fmt.Sscanf(line, "cmdstat_"+command+":calls=%d", &calls); err == nil {
				n += calls
			}
		}
	}
	return n
}
