package e2e

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestLeasesOfBucketsSpareRedis: two Envoys of two workers, at a sixth of a bucket of seconds,
// make less than one call to Redis for ten requests.
func TestLeasesOfBucketsSpareRedis(t *testing.T) {
	t.Parallel()
	const aSecond, most = 318, 0.1
	server := redistest.Start(t)
	var urls []string
	for range 2 {
		s := start(t, `{`+patient+`"rules": [{"name": "r", "limits": [{"algorithm": "gcra", "limit": 2000,
			"burst": 4000, "window": "1s", "lease": {"ttl": "500ms"}}]}]}`,
			envoytest.Options{Redis: []string{server.Addr}, Quiet: true})
		urls = append(urls, s.URL)
	}
	client := server.Client()
	// A machine that is busy sends fewer requests, and so has fewer of them for a call.
	testenv.Wait(t, patience, func() error {
		before := scripts(t, client)
		requests := sendAtRandom(t, urls, aSecond, 4*time.Second)
		calls := scripts(t, client) - before
		t.Logf("%d calls for %d requests: %.3f", calls, requests, float64(calls)/float64(requests))
		if float64(calls) >= most*float64(requests) {
			return fmt.Errorf("%d calls for %d requests, want below %v of them", calls, requests, most)
		}
		return nil
	})
}

// sendAtRandom sends about so many requests a second, at random times, from many clients. It returns how
// many there were. Each must be admitted.
func sendAtRandom(t *testing.T, urls []string, aSecond int, duration time.Duration) (requests int64) {
	t.Helper()
	const clients = 32
	var (
		group sync.WaitGroup
		count atomic.Int64
	)
	end := time.Now().Add(duration)
	for n := range clients {
		group.Go(func() {
			client, random := newClient(), rand.New(rand.NewPCG(uint64(n), 1))
			defer client.CloseIdleConnections()
			at := time.Now()
			for {
				at = at.Add(time.Duration(random.ExpFloat64() * float64(clients*time.Second) / float64(aSecond)))
				if at.After(end) {
					return
				}
				<-time.After(time.Until(at))
				r, err := send(t.Context(), client, urls[n%len(urls)])
				testenv.SameError(t, "a request", err, nil)
				testenv.Same(t, "its status", r.status, http.StatusOK)
				count.Add(1)
			}
		})
	}
	group.Wait()
	return count.Load()
}
