package observe

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// hammer is a user whose name must not get into the log.
const hammer = "hammer-of-the-gods"

// sha256Prefix is a name as "hash" stores it.
func sha256Prefix(name string) string {
	sum := sha256.Sum256([]byte(name))
	return hex.EncodeToString(sum[:])[:40]
}

// trouble lets Redis fail in every way while clients send requests to all
// listeners.
func (s *scene) trouble(t *testing.T) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	for range 2 {
		clients.Go(func() { s.client.load(ctx, s.URL+"/bucket", s.URL+"/api", s.Beside["deny"], s.Beside["local"]+"/own") })
	}
	client := s.redis.Client()
	s.errors(t, client)
	s.slowness(t, client)
	s.losses(t, client)
	s.forgotten(t, client)
	s.outage(t)
	rejected := 0
	for n := 0; rejected < 400; n++ { // none before Redis decides again
		if s.client.get(s.URL+"/secret", "x-user", hammer) == http.StatusTooManyRequests {
			rejected++
		}
		if n == 100_000 {
			t.Fatalf("%d of %d requests were rejected", rejected, n)
		}
	}
}

// errors lets Redis answer with errors: it is full.
func (s *scene) errors(t *testing.T, client *redis.Client) {
	t.Helper()
	full := func(bytes string) {
		testenv.OK(t, client.ConfigSet(t.Context(), "maxmemory", bytes).Err())
	}
	full("1")
	s.until(t, `sluice_redis_errors_total{cause="error_reply"} > 50`)
	full("0")
	s.until(t, `sluice_redis_breaker_workers{state="open"} == 0`)
}

// slowness lets Redis be slow, and more requests wait than may.
func (s *scene) slowness(t *testing.T, client *redis.Client) {
	t.Helper()
	for range 20 {
		var group sync.WaitGroup
		group.Go(func() {
			if err := client.Do(t.Context(), "DEBUG", "SLEEP", "0.1").Err(); err != nil {
				t.Error(err)
			}
		})
		s.client.atOnce(8, s.Beside["deny"], "x-user", "u")
		group.Wait()
	}
	s.until(t, `sluice_redis_errors_total{cause="overload"} > 0`)
}

// losses lets Redis close its connections.
func (s *scene) losses(t *testing.T, client *redis.Client) {
	t.Helper()
	for n := 0; n < 15; n++ {
		testenv.OK(t, client.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
		s.until(t, fmt.Sprintf("sluice_redis_reconnects_total > %d", n))
	}
}

// forgotten lets Redis lose the slots of what is in flight, again and again.
func (s *scene) forgotten(t *testing.T, client *redis.Client) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	defer group.Wait()
	defer stop()
	group.Go(func() {
		for ctx.Err() == nil {
			s.client.atOnce(15, s.URL+"/chat")
		}
	})
	group.Go(func() {
		for ctx.Err() == nil {
			if err := client.Del(t.Context(), "rl:{chat|}:concurrency").Err(); err != nil {
				t.Error(err)
			}
			time.Sleep(chatTime / 10) // a renewal may bring them back
		}
	})
	s.until(t, `sluice_slots_expired_total > 10`)
}

// outage lets Redis be down. The embedded store decides for one of the listeners,
// and forgets an identity.
func (s *scene) outage(t *testing.T) {
	t.Helper()
	s.redis.Kill()
	s.until(t, `sluice_redis_breaker_workers{state="open"} > 0`)
	// Which identities share a slot is a secret of the store: of 300 that fill half a
	// slot each, two meet in one of 4,096 but once in 50,000 runs.
	for user := range 300 {
		s.client.atOnce(40, s.Beside["local"]+"/log", "x-user", fmt.Sprint("user-", user))
	}
	s.until(t, `sluice_local_evictions_total > 0`)
	s.prometheus.ExpectAlert("SluiceRedisDown")
	s.redis.Restart()
	s.until(t, `sum(sluice_redis_breaker_workers{state!="closed"}) == 0`)
}

// until waits for an expression to have a value.
func (s *scene) until(t *testing.T, expr string) {
	t.Helper()
	testenv.Wait(t, promtest.Limit, func() error {
		found, err := s.prometheus.Query(expr)
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("%s: no value", expr)
		}
		return err
	})
}

// sums compares what all clients saw, whatever the faults, with what was counted.
func (s *scene) sums(t *testing.T) {
	answers := s.client.answers
	t.Logf("answers: %v", answers)
	for _, status := range []int{http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		if answers[status] == 0 {
			t.Errorf("no client saw %d", status)
		}
	}
	const left = 1 // the request that left the queue had been admitted
	s.await(
		t,
		expectation{
			`sum(sluice_requests_total{outcome=~"limited|local_limited|blocked"})`, nil,
			map[string]int{"": answers[http.StatusTooManyRequests]},
		},
		expectation{
			`sum(sluice_requests_total{outcome="failed_deny"})`, nil,
			map[string]int{"": answers[http.StatusServiceUnavailable]},
		},
		expectation{
			`sum(sluice_requests_total{outcome!~"limited|local_limited|blocked|failed_deny"})`, nil,
			map[string]int{"": answers[http.StatusOK] + left},
		},
		expectation{`sum by (outcome) (sluice_requests_total) > bool 0`, []string{"outcome"}, map[string]int{
			"allowed": 1, "limited": 1, "blocked": 1, "shadow_limited": 1, "exempt": 1, "none": 1,
			"failed_allow": 1, "failed_deny": 1, "local_allowed": 1, "local_limited": 1, "over": 1,
		}},
		expectation{`sluice_redis_in_flight_requests`, nil, map[string]int{"": 0}},
	)
}
