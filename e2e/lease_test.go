package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestSharpenedLeases: two listeners of two workers, whose leases sharpen, admit a limit to
// within 1 %, and never more, with few commands for Redis.
func TestSharpenedLeases(t *testing.T) {
	t.Parallel()
	const limit, workers, ttl = 10_000, 4, 200 * time.Millisecond
	server := redistest.Start(t)
	plugin := fmt.Sprintf(`{%s"rules": [
		{"name": "window", "match": {"path": "/window"}, "limits": [{"algorithm": "fixed_window", "anchor": "first_request",
			"limit": %d, "window": "1h", "lease": {"ttl": %q}}]},
		{"name": "bucket", "match": {"path": "/bucket"}, "limits": [{"algorithm": "gcra", "limit": 1, "burst": %[2]d,
			"window": "1h", "lease": {"ttl": %[3]q}}]},
		{"name": "seconds", "match": {"path": "/seconds"}, "limits": [{"algorithm": "gcra", "limit": 2000, "burst": 4000,
			"window": "1s", "lease": {"ttl": "500ms"}}]}]}`, // of the others nothing to speak of comes back
		patient, limit, ttl)
	s, client := start(t, plugin, envoytest.Options{
		Redis: []string{server.Addr}, Quiet: true, Beside: map[string]string{"other": plugin},
	}), server.Client()
	urls := [2]string{s.URL, s.Beside["other"]}
	for _, path := range []string{"/window", "/bucket"} {
		before, began := scripts(t, client), time.Now()
		var (
			admitted atomic.Int64
			group    sync.WaitGroup
		)
		for _, url := range urls {
			group.Go(func() {
				got := burst(t, limit*3/4, 16, []string{url + path})
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

	// At a sixth of a bucket of seconds they make less than one call to Redis for ten requests.
	const aSecond, clients, most = 318, 32, 0.1
	// A machine that is busy sends fewer requests, and so has fewer of them for a call.
	testenv.Wait(t, patience, func() error {
		before := scripts(t, client)
		var (
			group    sync.WaitGroup
			requests atomic.Int64
			end      = time.Now().Add(4 * time.Second)
		)
		for n := range clients { // each sends at random times
			group.Go(func() {
				client, random := newClient(), rand.New(rand.NewPCG(uint64(n), 1))
				defer client.CloseIdleConnections()
				pause := func() time.Duration {
					return time.Duration(random.ExpFloat64() * float64(clients*time.Second) / float64(aSecond))
				}
				for at := time.Now().Add(pause()); at.Before(end); at = at.Add(pause()) {
					<-time.After(time.Until(at))
					r, err := send(t.Context(), client, urls[n%len(urls)]+"/seconds")
					testenv.SameError(t, "a request", err, nil)
					testenv.Same(t, "its status", r.status, http.StatusOK)
					requests.Add(1)
				}
			})
		}
		group.Wait()
		calls, all := scripts(t, client)-before, requests.Load()
		t.Logf("%d calls for %d requests: %.3f", calls, all, float64(calls)/float64(all))
		if float64(calls) >= most*float64(all) {
			return fmt.Errorf("%d calls for %d requests, want below %v of them", calls, all, most)
		}
		return nil
	})
}

// scripts is how many scripts Redis has been asked to run.
func scripts(t *testing.T, client *redis.Client) (n int) {
	t.Helper()
	info := client.InfoMap(ctx, "commandstats")
	testenv.OK(t, info.Err())
	for _, command := range []string{"eval", "evalsha"} {
		var calls int
		_, _ = fmt.Sscanf(info.Item("Commandstats", "cmdstat_"+command), "calls=%d", &calls) // none is no entry
		n += calls
	}
	return n
}
