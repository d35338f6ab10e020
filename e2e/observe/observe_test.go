package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// chatTime is how long a request to /chat takes.
const chatTime = 2 * time.Second

// TestOperatorsView drives traffic that has every outcome and meets every fault,
// and finds all of it in Prometheus.
func TestOperatorsView(t *testing.T) {
	s := &scene{redis: redistest.Start(t, "--enable-debug-command", "yes"), client: newClient(t)}
	s.Envoy = envoytest.Start(t, envoytest.Options{
		Plugin: allowing,
		Beside: map[string]string{"deny": denying, "local": deciding()},
		Redis:  []string{s.redis.Addr},
		Upstream: envoytest.NewUpstream(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/chat" {
				time.Sleep(chatTime)
			}
		})).Addr,
	})
	s.prometheus = promtest.Start(t, strings.TrimPrefix(s.Admin, "http://"))
	t.Run("counts", s.counts)
	t.Run("leases", s.leases)
	t.Run("overrides", s.overrides)
	t.Run("settlements", s.settlements)
	t.Run("queue", s.queue)

	// Redis fails in every way while clients send requests to all listeners.
	ctx, stop := context.WithCancel(context.Background())
	var clients sync.WaitGroup
	defer clients.Wait()
	defer stop()
	for range 2 {
		clients.Go(func() { s.client.load(ctx, s.URL+"/bucket", s.URL+"/api", s.Beside["deny"], s.Beside["local"]+"/own") })
	}
	client := s.redis.Client()
	testenv.OK(t, client.ConfigSet(t.Context(), "maxmemory", "1").Err()) // Redis is full, and answers with errors
	s.until(t, `sluice_redis_errors_total{cause="error_reply"} > 50`)
	testenv.OK(t, client.ConfigSet(t.Context(), "maxmemory", "0").Err())
	s.until(t, `sluice_redis_breaker_workers{state="open"} == 0`)
	// Redis is slow, and more requests wait than may.
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
	for n := range 15 { // Redis closes its connections
		testenv.OK(t, client.ClientKillByFilter(t.Context(), "TYPE", "normal", "SKIPME", "yes").Err())
		s.until(t, fmt.Sprintf("sluice_redis_reconnects_total > %d", n))
	}
	s.forgotten(t, client)
	// Redis is down. The embedded store decides for one of the listeners, and forgets an identity.
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
	rejected := 0
	for n := 0; rejected < 400; n++ { // none before Redis decides again
		if s.client.get(s.URL+"/secret", "x-user", hammer) == http.StatusTooManyRequests {
			rejected++
		}
		if n == 100_000 {
			t.Fatalf("%d of %d requests were rejected", rejected, n)
		}
	}
	stop()
	clients.Wait()

	t.Run("sums", s.sums)
	t.Run("alerts", s.alerts)
	t.Run("dashboard", func(t *testing.T) { s.prometheus.ExpectDashboard(t) })
	t.Run("documented", s.documented)
	t.Run("log", s.log)
}

// counts sends some requests of every kind, one at a time, and expects each to be
// counted once under the right labels.
func (s *scene) counts(t *testing.T) {
	const once = `once%2Ev1%20%22beta%22`
	s.ask(t, []step{
		{"/healthz", 3, 0},
		{"/elsewhere", 4, 0},
		{"/api", 5, 3}, // the fourth and fifth in the shadow of "tighter"
		{"/once", 1, 4},
		{"/both", 1, 1},
		{"/spent", 5, 1}, // credits pay for three
	})
	s.await(
		t,
		expectation{"sluice_requests_total", []string{"outcome"}, map[string]int{
			"exempt": 3, "none": 4, "allowed": 3 + 1 + 1 + 2, "shadow_limited": 2, "limited": 3 + 4 + 1 + 1,
			"over": 3, "blocked": 0, "failed_allow": 0, "failed_deny": 0, "local_allowed": 0, "local_limited": 0,
		}},
		expectation{`sluice_rule_requests_total{rule!="tighter"} > 0`, []string{"rule", "outcome"}, map[string]int{
			"health exempt": 3, "orders allowed": 5, "orders limited": 3, once + " allowed": 1, once + " limited": 4,
			"wide allowed": 2, "narrow allowed": 1, "narrow limited": 1,
			"spent allowed": 2, "spent over": 3, "spent limited": 1,
		}},
		expectation{`sluice_rule_requests_total{rule="tighter",outcome="allowed"}`, nil, map[string]int{"": 3}},
		expectation{`sluice_near_limit_total > 0`, []string{"rule", "limit"}, map[string]int{
			"orders orders-366d": 1, "tighter tighter": 1, once + " " + once: 1, "narrow narrow": 1,
			"spent spent": 1, "spent credits": 1,
		}},
		expectation{`sluice_over_limit_total{rule!="tighter"} > 0`, []string{"rule", "limit"}, map[string]int{
			"orders orders-366d": 3, once + " " + once: 4, "narrow narrow": 1,
			"spent spent": 4, "spent credits": 1,
		}},
		expectation{`sluice_redis_refunds_total`, nil, map[string]int{"": 1}},
		expectation{
			`sluice_redis_breaker_workers`,
			[]string{"state"},
			map[string]int{"closed": 1, "half_open": 0, "open": 0},
		},
		expectation{`sluice_redis_checks_total > bool 10`, nil, map[string]int{"": 1}},
		expectation{
			`sluice_redis_checks_total - on() sluice_redis_round_trip_microseconds_count`, nil,
			map[string]int{"": 0},
		},
		expectation{`sluice_deny_cache_hits_total >= bool 3`, nil, map[string]int{"": 1}}, // of "once"
		expectation{`sum(sluice_redis_errors_total)`, nil, map[string]int{"": 0}},
		expectation{`sluice_config_generation`, nil, map[string]int{"": 3}}, // one for each listener
		expectation{`time() - sluice_config_load_timestamp_seconds < bool 600`, nil, map[string]int{"": 1}},
	)
}

// step is requests by one user, and how many of them are admitted, and rejected.
type step struct {
	path         string
	ok, rejected int
}

func (s *scene) ask(t *testing.T, steps []step) {
	t.Helper()
	for _, step := range steps {
		got := map[int]int{}
		for range step.ok + step.rejected {
			got[s.client.get(s.URL+step.path, "x-user", "u")]++
		}
		if got[http.StatusOK] != step.ok || got[http.StatusTooManyRequests] != step.rejected {
			t.Fatalf("%s: answers %v, want %d of 200 and %d of 429", step.path, got, step.ok, step.rejected)
		}
	}
}

// leases spends units of a lease. Every unit that was taken has been spent, or is
// given back in time.
func (s *scene) leases(t *testing.T) {
	s.ask(t, []step{{"/hot", 40, 0}})
	s.await(
		t,
		expectation{`sluice_rule_requests_total{rule="hot"} > 0`, []string{"outcome"}, map[string]int{"allowed": 40}},
		expectation{
			`sluice_lease_units_total{event=~"taken|spent"} >= bool 20`,
			[]string{"event"},
			map[string]int{"taken": 1, "spent": 1},
		},
		expectation{
			`sum(sluice_lease_units_total{event="taken"}) - sum(sluice_lease_units_total{event!="taken"})`, nil,
			map[string]int{"": 0},
		},
	)
}

// overrides sets one of each kind, and an invalid one; then the client earns a block.
func (s *scene) overrides(t *testing.T) {
	client := s.redis.Client()
	for _, o := range []struct {
		value        string
		ok, rejected int
	}{{"free", 3, 0}, {"x2", 2, 0}, {"nonsense", 0, 1}, {"", 0, 1}, {"", 0, 3}, {"block", 0, 1}} {
		var err error
		if o.value == "" {
			err = client.Del(context.Background(), "rl:{watched|u}:override").Err()
		} else {
			err = client.Set(context.Background(), "rl:{watched|u}:override", o.value, 0).Err()
		}
		testenv.OK(t, err)
		time.Sleep(time.Second) // by then it is in force
		s.ask(t, []step{{"/watched", o.ok, o.rejected}})
	}
	s.await(
		t,
		expectation{
			`sluice_overrides_checks_total`,
			[]string{"event"},
			map[string]int{"free": 3, "factor": 2, "ignored": 1, "block": 1},
		},
		expectation{`sluice_penalty_blocks_total`, nil, map[string]int{"": 1}},
		expectation{
			`sluice_rule_requests_total{rule="watched"} > 0`,
			[]string{"outcome"},
			map[string]int{"allowed": 5, "limited": 2, "blocked": 4},
		},
	)
}

// settlements are of three logins that succeed, one after the other.
func (s *scene) settlements(t *testing.T) {
	for n := range 3 {
		s.ask(t, []step{{"/login", 1, 0}})
		s.await(t, expectation{`sluice_redis_settlements_total`, []string{"event"}, map[string]int{"sent": n + 1, "lost": 0}})
	}
}

// queue holds two requests, of which the client of one leaves before its turn.
func (s *scene) queue(t *testing.T) {
	const held, expired, waiting = "sluice_queue_held_total", "sluice_queue_expired_total", "sluice_queue_waiting_requests"
	expect := func(wantHeld, wantExpired, wantWaiting int) {
		t.Helper()
		s.await(
			t,
			expectation{held, nil, map[string]int{"": wantHeld}},
			expectation{expired, nil, map[string]int{"": wantExpired}},
			expectation{waiting, nil, map[string]int{"": wantWaiting}},
		)
	}
	s.ask(t, []step{{"/queue", 1, 0}})
	ends := make(chan error)
	send := func(ctx context.Context) {
		status, err := s.client.send(ctx, s.URL+"/queue")
		if err == nil && status != http.StatusOK {
			err = fmt.Errorf("status %d", status)
		}
		ends <- err
	}
	leaving, leave := context.WithCancel(context.Background())
	defer leave()
	go send(leaving)
	expect(1, 0, 1)
	leave()
	if err := <-ends; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that left: %v", err)
	}
	go send(context.Background())
	expect(2, 1, 1)
	if err := <-ends; err != nil {
		t.Errorf("the one that stayed: %v", err)
	}
	expect(2, 1, 0)
}
