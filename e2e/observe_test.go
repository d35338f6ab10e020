package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// chatTime is how long a request to /chat takes.
const chatTime = 2 * time.Second

// hammer is a user whose name must not get into the log.
const hammer = "hammer-of-the-gods"

// TestOperatorsView drives traffic that has every outcome and meets every fault,
// and finds all of it in Prometheus.
func TestOperatorsView(t *testing.T) {
	t.Parallel()
	s := &scene{answers: tally{}, ended: make(chan tally)}
	// The logs of two identities whose tags' SHA-256 name one slot of the embedded store, as those of "a|36" and
	// "a|61" do, do not fit in it together.
	var logs []string
	for hours := range 16 {
		logs = append(logs, fmt.Sprintf(`{"algorithm": "sliding_window_log", "limit": 1000, "window": "%dh"}`, hours+1))
	}
	deciding := `{"redis": {"cluster": "redis", "timeout": "500ms"},
		"failure": {"mode": "local", "breaker": {"failures": 1, "min_open": "100ms", "max_open": "200ms"}},
		"rules": [
			{"name": "a", "match": {"path": "/log"}, "key": [{"query": "u"}], "limits": [` + strings.Join(logs, ",") + `]},
			{"name": "per-tenant", "match": {"path": "/own"}, "key": [{"header": "x-user"}],
				"limits": [{` + ever + `, "limit": 2}]}]}`
	s.setting = start(t, allowing, envoytest.Options{Beside: map[string]string{"deny": denying, "local": deciding}})
	s.upstream.Handle(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/chat" {
			time.Sleep(chatTime)
		}
	}))
	s.prometheus = promtest.Start(t, strings.TrimPrefix(s.Admin, "http://"))
	datadriven.RunTest(t, "testdata/view.txt", s.play)

	// Redis fails in every way while a client sends requests to all listeners.
	urls, sent := []string{s.URL + "/bucket", s.URL + "/api", s.Beside["deny"], s.Beside["local"] + "/own"}, 0
	client := startVarying(t, 1, func(int, reply) string {
		sent++
		return urls[sent%len(urls)]
	}, "x-user: ann")
	testenv.OK(t, s.client.ConfigSet(ctx, "maxmemory", "1").Err()) // Redis is full, and answers with errors
	s.until(t, `sluice_redis_errors_total{cause="error_reply"} > 50`)
	testenv.OK(t, s.client.ConfigSet(ctx, "maxmemory", "0").Err())
	s.until(t, `sluice_redis_breaker_workers{state="open"} == 0`)
	for range 20 { // Redis is slow, and more requests wait than may
		s.redis.Signal(syscall.SIGSTOP)
		s.count(burst(t, 8, 8, []string{s.Beside["deny"]}, "x-user: u"))
		s.redis.Signal(syscall.SIGCONT)
	}
	s.until(t, `sluice_redis_errors_total{cause="overload"} > 0`)
	for n := range 15 { // Redis closes its connections
		testenv.OK(t, s.client.ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Err())
		s.until(t, fmt.Sprintf("sluice_redis_reconnects_total > %d", n))
	}
	chats := startLoad(t, 15, s.URL+"/chat")
	testenv.Wait(t, promtest.Limit, func() error { // Redis loses the slots of what is in flight, again and again
		testenv.OK(t, s.client.Del(ctx, "rl:{chat|}:concurrency").Err()) // a renewal may bring them back
		found, err := s.prometheus.Query(`sluice_slots_expired_total > 10`)
		return errors.Join(err, atLeast(len(found), 1, "counters of more than 10 slots that expired"))
	})
	s.count(chats.stop())
	// Redis is down. The embedded store decides for one of the listeners, and forgets an identity.
	s.redis.Kill()
	s.until(t, `sluice_redis_breaker_workers{state="open"} > 0`)
	// Which identities share a slot is a secret of the store: of 300 that fill half a
	// slot each, two meet in one of 4,096 but once in 50,000 runs.
	var users []string
	for user := range 300 {
		users = append(users, fmt.Sprintf("%s/log?u=%d", s.Beside["local"], user))
	}
	s.count(burst(t, 40*len(users), 16, users))
	s.until(t, `sluice_local_evictions_total > 0`)
	s.prometheus.ExpectAlert("SluiceRedisDown")
	s.redis.Restart()
	s.until(t, `sum(sluice_redis_breaker_workers{state!="closed"}) == 0`)
	hammered := tally{}
	testenv.Wait(t, patience, func() error { // none is rejected before Redis decides again
		hammered[get(t, s.URL+"/secret", "x-user: "+hammer).status]++
		return atLeast(hammered[http.StatusTooManyRequests], 400, "rejections")
	})
	s.count(hammered)
	s.count(client.stop())

	// What all clients saw, whatever the faults, is what was counted.
	t.Logf("answers: %v", s.answers)
	for _, status := range []int{http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		if s.answers[status] == 0 {
			t.Errorf("no client saw %d", status)
		}
	}
	const left = 1 // the request that left the queue had been admitted
	s.await(
		t,
		fmt.Sprintf("%d\n%d\n%d\n0\n", s.answers[http.StatusTooManyRequests], s.answers[http.StatusServiceUnavailable],
			s.answers[http.StatusOK]+left),
		`sum(sluice_requests_total{outcome=~"limited|local_limited|blocked"})`,
		`sum(sluice_requests_total{outcome="failed_deny"})`,
		`sum(sluice_requests_total{outcome!~"limited|local_limited|blocked|failed_deny"})`,
		`sum(sluice_redis_in_flight_requests)`,
	)
	const each = "allowed 1\nblocked 1\nexempt 1\nfailed_allow 1\nfailed_deny 1\nlimited 1\nlocal_allowed 1\n" +
		"local_limited 1\nnone 1\nover 1\nshadow_limited 1\n"
	s.await(t, each, `sum by (outcome) (sluice_requests_total{outcome!="quota"}) > bool 0`)
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
			got := tally{}
			for range n {
				got[get(t, s.URL+path, "x-user: u").status]++
			}
			s.count(got)
			out += fmt.Sprintln(got)
		}
	case "begin":
		var held context.Context
		held, s.leave = context.WithCancel(ctx)
		go func() {
			r, _ := send(held, shared, s.URL+d.Input) // status 0: it has left
			s.ended <- tally{r.status: 1}
		}()
	case "leave", "end":
		if d.Cmd == "leave" {
			s.leave()
		}
		got := <-s.ended
		s.count(got)
		out = fmt.Sprintln(got)
	case "redis":
		for _, line := range lines {
			reply, err := s.client.Do(ctx, words(line)...).Result()
			testenv.OK(t, err)
			out += fmt.Sprintln(reply)
		}
		time.Sleep(time.Second)
	}
	return out
}
