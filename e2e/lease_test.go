package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
)

// TestSharpenedLeases: two Envoys of two workers, whose leases sharpen, admit a limit to
// within 1 %, and never more, with few commands for Redis.
func TestSharpenedLeases(t *testing.T) {
	t.Parallel()
	const limit, workers, ttl = 10_000, 4, 200 * time.Millisecond
	for name, algorithm := range map[string]string{
		"fixed window": `"algorithm": "fixed_window", "anchor": "first_request", "limit": %d`,
		"token bucket": `"algorithm": "token_bucket", "limit": 1, "burst": %d`, // nothing to speak of comes back
		"leaky bucket": `"algorithm": "leaky_bucket", "limit": 1, "burst": %d`,
		"gcra":         `"algorithm": "gcra", "limit": 1, "burst": %d`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			plugin := `{` + patient + `"rules": [{"name": "r", "limits": [{` + fmt.Sprintf(algorithm,
				limit) + `, "window": "1h", "lease": {"ttl": "` + ttl.String() + `"}}]}]}`
			var urls []string
			for range 2 {
				s := start(t, plugin, envoytest.Options{Redis: []string{server.Addr}, Quiet: true})
				urls = append(urls, s.URL)
			}
			client := server.Client()
			before, began := scripts(t, client), time.Now()
			var (
				mu       sync.Mutex
				admitted int
				group    sync.WaitGroup
			)
			for _, url := range urls {
				group.Go(func() {
					got := burst(t, limit*3/4, 16, []string{url})
					mu.Lock()
					defer mu.Unlock()
					admitted += got[http.StatusOK]
				})
			}
			group.Wait()
			// Whoever has few requests in a ttl takes units and returns them for these few: a machine
			// that is slow needs more commands.
			commands, ttls := scripts(t, client)-before, int(time.Since(began)/ttl)
			t.Logf("%d of %d admitted, %d commands", admitted, limit, commands)
			if admitted > limit {
				t.Errorf("%d were admitted, want %d at most", admitted, limit)
			}
			if most := limit/3 + 3*workers*ttls; commands > most {
				t.Errorf("%d commands for Redis, want %d at most", commands, most)
			}
			if want := limit * 99 / 100; admitted < want {
				t.Errorf("%d were admitted, want %d at least", admitted, want)
			}
		})
	}
}

// scripts is how many scripts Redis has been asked to run.
func scripts(t *testing.T, client *redis.Client) (calls int) {
	t.Helper()
	info, err := client.Info(ctx, "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		name, rest, _ := strings.Cut(line, ":calls=")
		if name != "cmdstat_eval" && name != "cmdstat_evalsha" {
			continue
		}
		count, _, _ := strings.Cut(rest, ",")
		n, err := strconv.Atoi(count)
		if err != nil {
			t.Fatal(err)
		}
		calls += n
	}
	return calls
}
