package e2e

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestLeaversChargeNoOthers: an exhausted user's client sends requests and leaves at
// once. They are settled all the same: the tenant pays for what was admitted only.
func TestLeaversChargeNoOthers(t *testing.T) {
	t.Parallel()
	const limit, leavers = 5, 400
	cases := []struct {
		name      string
		denyCache int
		transport func() *http.Transport
	}{
		{name: "HTTP/1.1", denyCache: 4096, transport: func() *http.Transport { return new(http.Transport) }},
		{name: "HTTP/1.1, no deny cache", transport: func() *http.Transport { return new(http.Transport) }},
		{name: "HTTP/2", denyCache: 4096, transport: http2},
		{name: "HTTP/2, no deny cache", transport: http2},
	}
	beside := map[string]string{}
	for i, tc := range cases {
		beside[fmt.Sprint(i)] = fmt.Sprintf(`{%s"deny_cache": {"size": %d}, "rules": [
			{"name": "tenant-%d", "key": [{"header": "x-tenant"}], "cost": {"header": "x-cost", "default": 1, "max": 9},
				"limits": [{"algorithm": "fixed_window", "limit": 1000, %s}]},
			{"name": "user-%[3]d", "key": [{"header": "x-user"}], "limits": [{"algorithm": "gcra", "limit": %[5]d, %[4]s}]}]}`,
			patient, tc.denyCache, i, long, limit)
	}
	s := start(t, `{`+patient+`"rules": [{"name": "r", `+hundred+`}]}`, envoytest.Options{Beside: beside})
	for i, tc := range cases {
		url, sent := s.Beside[fmt.Sprint(i)], requestsOf(s)
		for range limit {
			get(t, url, "x-tenant: t", "x-user: u")
		}
		before := s.snapshot(t)
		var client *http.Client
		for n := range leavers { // as soon as the request is written
			if n%100 == 0 { // Envoy takes more on one connection for an attack
				client = &http.Client{Transport: tc.transport()}
				defer client.CloseIdleConnections()
			}
			leaving, leave := context.WithCancel(ctx)
			wrote := httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { leave() }}
			_, _ = send(httptrace.WithClientTrace(leaving, &wrote), client, url, "x-tenant: t", "x-user: u")
			leave()
		}
		awaitSettled(t, s, sent+limit+leavers*9/10) // a few may leave before their request is on its way
		s.awaitSnapshot(t, before)                  // no request waits for refunds
		t.Log(tc.name)                              // the last one is what has failed
		expectLeft(t, url, 1000-limit, "x-tenant: t")
	}
}

// awaitSettled returns when Envoy has had a number of requests, or more, all of them are
// over, and the plugin has counted each once.
func awaitSettled(t testing.TB, s *setting, requests int) {
	t.Helper()
	const all, active = "http.limited.downstream_rq_total", "http.limited.downstream_rq_active"
	testenv.Wait(t, 6*patience, func() error {
		envoy, told := s.Stats("http.limited.downstream_rq"), int64(0)
		for _, n := range s.Stats("wasmcustom.sluice.outcome.") {
			told += n
		}
		if envoy[all] < int64(requests) || envoy[active] > 0 || told != envoy[all] {
			return fmt.Errorf("%d requests came, want %d; %d are under way, %d are counted", envoy[all], requests,
				envoy[active], told)
		}
		return nil
	})
}

// dial connects to Envoy. The connection ends with the test.
func dial(t testing.TB, addr string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	testenv.OK(t, err)
	t.Cleanup(func() { conn.Close() })
	return conn
}

// leaversGiveTheirPlacesBack: a queue that is full has room again when clients
// leave that it holds. Those who stay keep their times.
var leaversGiveTheirPlacesBack = plain{
	name: "leavers give their places back",
	config: `{"rules": [{"name": "r", "key": [{"header": "x-user"}], "limits": [
		{"algorithm": "leaky_bucket", "overflow": "queue", "limit": 1, "window": "5s", "burst": 4, "max_delay": "1m"}]}]}`,
	play: func(t *testing.T, s *setting) {
		const interval = 5 * time.Second
		leaving, leave := context.WithCancel(ctx)
		defer leave()
		answers := enqueue(t, s, []context.Context{ctx, leaving, leaving, ctx})
		stayed := time.Now() // request 3 is due two to three intervals from here
		testenv.Same(t, "a full queue: status", get(t, s.URL, "x-user: u").status, http.StatusTooManyRequests)
		leave()
		testenv.Wait(t, patience, func() error { // the other worker may remember the rejection for 100 ms
			if r := get(t, s.URL+"/?4", "x-user: u"); r.status != http.StatusOK {
				return fmt.Errorf("status %d: no place was given back", r.status)
			}
			return nil
		})
		for i, answer := range answers {
			if err := <-answer; (err != nil) != (i == 1 || i == 2) {
				t.Errorf("request %d: %v", i, err)
			}
		}
		if wait := time.Since(stayed); wait < 2*interval-interval/2 {
			t.Errorf("request 3 left after %v, want about %v", wait, 3*interval)
		}
		var got []string
		for _, r := range s.upstream.Requests() {
			got = append(got, r.URL.RawQuery)
		}
		testenv.SameList(t, "the upstream got", got, []string{"0", "4", "3"})
	},
}
