package observe

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

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
	datadriven.RunTest(t, "testdata/view.txt", s.play)
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

// play runs a command of testdata/view.txt.
func (s *scene) play(t *testing.T, d *datadriven.TestData) (out string) {
	t.Helper()
	lines := strings.Split(d.Input, "\n")
	switch d.Cmd {
	case "metric":
		s.await(t, d.Expected, lines...)
		return d.Expected
	case "ask":
		for _, line := range lines {
			count, path, _ := strings.Cut(line, "x ")
			n, err := strconv.Atoi(count)
			testenv.OK(t, err)
			got := map[int]int{}
			for range n {
				got[s.client.get(s.URL+path, "x-user", "u")]++
			}
			out += fmt.Sprintln(got)
		}
	case "redis":
		for _, line := range lines {
			var words []any
			for _, word := range strings.Fields(line) {
				words = append(words, word)
			}
			reply, err := s.redis.Client().Do(t.Context(), words...).Result()
			testenv.OK(t, err)
			out += fmt.Sprintln(reply)
		}
		time.Sleep(time.Second)
	}
	return out
}

// queue holds two requests, of which the client of one leaves before its turn.
func (s *scene) queue(t *testing.T) {
	expect := func(heldExpiredWaiting string) {
		t.Helper()
		s.await(t, heldExpiredWaiting, "sum(sluice_queue_held_total)", "sum(sluice_queue_expired_total)",
			"sum(sluice_queue_waiting_requests)")
	}
	testenv.Same(t, "status of the first", s.client.get(s.URL+"/queue"), http.StatusOK)
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
	expect("1\n0\n1\n")
	leave()
	if err := <-ends; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that left: %v", err)
	}
	go send(context.Background())
	expect("2\n1\n1\n")
	if err := <-ends; err != nil {
		t.Errorf("the one that stayed: %v", err)
	}
	expect("2\n1\n0\n")
}
