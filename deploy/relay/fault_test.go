package relay_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// clients send requests one after the other, so that as many are in flight at most.
const clients = 8

// activeStreams is a relay's count of the streams that it has.
const activeStreams = "http.relay.downstream_rq_active"

// startPair runs two relays in front of a Redis, and has clients ask through a limiter of both.
func startPair(t *testing.T, plugin string) (l *load, relays [2]*envoytest.Envoy) {
	t.Helper()
	server := redistest.Start(t)
	for i := range relays {
		relays[i] = envoytest.NewRelay(t, server.Addr, nil)
	}
	return startLoad(t, startPlugin(t, plugin, relays[0].Addr, relays[1].Addr), clients), relays
}

// inUse is the relay that has the limiter's stream. A stream that rotates is at neither while the one
// count and then the other is read.
func inUse(t *testing.T, relays [2]*envoytest.Envoy) (used *envoytest.Envoy) {
	t.Helper()
	testenv.Wait(t, patience, func() error {
		for _, relay := range relays {
			if relay.Stats(activeStreams)[activeStreams] > 0 {
				used = relay
				return nil
			}
		}
		return errors.New("neither relay has the stream")
	})
	return used
}

// TestOneOfTwo: a relay that drains costs nothing, and its end what was in flight at most, in good order
// or not.
func TestOneOfTwo(t *testing.T) {
	t.Parallel()
	l, relays := startPair(t, fmt.Sprintf(plugin, "10s"))
	l.await(t, 200)
	used := inUse(t, relays)
	drain(t, used)
	l.await(t, 200)
	testenv.Same(t, "requests that were not decided while the relay drained", l.failed.Load(), 0)
	used.Stop()
	l.await(t, 200)
	testenv.Within(t, "requests that were not decided when the relay ended", l.failed.Load(), 0, clients)
	used.Restart()
	l.kill(t, relays)
}

// TestOneOfTwoWhileStreamsRotate: streams leave a relay that drains, so that its end costs nothing. Where
// one is killed, Envoy gives its relays streams by turns, and the dead one's may be next: a stream in
// place of a lost one is probed first, so that nothing more fails than what was in flight.
func TestOneOfTwoWhileStreamsRotate(t *testing.T) {
	t.Parallel()
	l, relays := startPair(t, rotating("10s"))
	l.await(t, 200)
	used := inUse(t, relays)
	drain(t, used)
	testenv.Wait(t, patience, func() error { return left(used) })
	used.Stop()
	l.await(t, 200)
	testenv.Same(t, "requests that were not decided", l.failed.Load(), 0)
	used.Restart()
	l.kill(t, relays)
}

// kill kills one of two relays, the one in use, again and again: what was in flight fails, and nothing more.
func (l *load) kill(t *testing.T, relays [2]*envoytest.Envoy) {
	t.Helper()
	for round := range 6 {
		l.await(t, 200)
		used := inUse(t, relays)
		before := l.failed.Load()
		used.Kill()
		l.await(t, 200)
		failed := l.failed.Load() - before
		testenv.Within(t, fmt.Sprintf("requests that were not decided in round %d", round), failed, 0, clients)
		used.Restart()
	}
}

// left reports whether a relay takes no connection any more, and has no stream.
func left(relay *envoytest.Envoy) error {
	if c, err := net.Dial("tcp", relay.Addr); err == nil {
		c.Close()
		return errors.New("the relay takes connections")
	}
	if n := relay.Stats(activeStreams)[activeStreams]; n != 0 {
		return fmt.Errorf("the relay has %d streams", n)
	}
	return nil
}

// drain does what the preStop hook of the Deployment does, and waits for what it waits for.
func drain(t *testing.T, relay *envoytest.Envoy) {
	t.Helper()
	template := testenv.Read(t, "../chart/templates/relay-deployment.yaml")
	if !strings.Contains(string(template), "preStop: {httpGet: {path: /drain, port: 9903}}") {
		t.Fatal("the chart's Deployment has no such preStop hook")
	}
	status, _ := fetch(t, http.MethodGet, listenerURL(t, relay, "drain")+"/drain")
	testenv.Same(t, "status of /drain", status, http.StatusOK)
}

// listenerURL is where another listener of a relay listens, at a port that the system chose.
func listenerURL(t *testing.T, relay *envoytest.Envoy, name string) string {
	t.Helper()
	_, text := fetch(t, http.MethodGet, relay.Admin+"/listeners")
	_, addr, _ := strings.Cut(text, name+"::")
	addr, _, found := strings.Cut(addr, "\n")
	if !found {
		t.Fatalf("no listener %q in %s", name, text)
	}
	return "http://" + addr
}

func fetch(t *testing.T, method, url string) (status int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, url, http.NoBody)
	testenv.OK(t, err)
	resp, err := http.DefaultClient.Do(req)
	testenv.OK(t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	testenv.OK(t, err)
	return resp.StatusCode, string(body)
}

// TestWatched: a relay shows its metrics and whether it is ready at a port of its own, and nothing else of its
// admin interface.
func TestWatched(t *testing.T) {
	t.Parallel()
	relay := envoytest.NewRelay(t, redistest.Start(t).Addr, nil)
	stats := listenerURL(t, relay, "stats")
	for _, c := range []struct {
		method, path string
		status       int
		has          string
	}{
		{http.MethodGet, "/ready", http.StatusOK, "LIVE"},
		{http.MethodGet, "/stats/prometheus", http.StatusOK, `cluster_membership_healthy{envoy_cluster_name="redis"} 1`},
		{http.MethodGet, "/stats/prometheus?filter=redis", http.StatusOK, "envoy_redis_downstream_cx_active"},
		{http.MethodPost, "/ready", http.StatusNotFound, ""},
		{http.MethodPost, "/stats/prometheus", http.StatusNotFound, ""},
		{http.MethodGet, "/config_dump", http.StatusNotFound, ""},
		{http.MethodPost, "/quitquitquit", http.StatusNotFound, ""},
		{http.MethodGet, "/drain", http.StatusNotFound, ""},
	} {
		status, text := fetch(t, c.method, stats+c.path)
		testenv.Same(t, c.method+" "+c.path, status, c.status)
		testenv.Same(t, c.method+" "+c.path+" has "+c.has, strings.Contains(text, c.has), true)
	}
	drain(t, relay)
	testenv.Wait(t, patience, func() error { return left(relay) })
	status, _ := fetch(t, http.MethodGet, stats+"/ready")
	testenv.Same(t, "status of /ready, which liveness asks, of a relay that drains", status, http.StatusOK)
}

// TestRedisDropsRelays: Redis closes its clients' connections behind the relay.
func TestRedisDropsRelays(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	relay := envoytest.NewRelay(t, server.Addr, nil)
	l := startLoad(t, startPlugin(t, rotating("10s"), relay.Addr), clients)
	for range 5 {
		l.await(t, 200)
		failed := l.failed.Load()
		testenv.OK(t, server.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
		l.await(t, 200)
		n := l.failed.Load() - failed
		if n > clients {
			t.Errorf("%d requests were not decided, want at most the %d in flight", n, clients)
		}
		t.Logf("%d requests were not decided", n)
	}
}

// TestRedisBack: a Redis that was away decides again, through a relay that stayed.
func TestRedisBack(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	relay := envoytest.NewRelay(t, server.Addr, nil)
	e := startLimiter(t, "500ms", relay.Addr)
	server.Kill()
	for range 3 {
		if err := decided(e); err == nil || !strings.Contains(err.Error(), "503") {
			t.Fatalf("without Redis: %v, want status 503", err)
		}
	}
	server.Restart()
	l := startLoad(t, e, 1)
	l.await(t, 50)
	began := time.Now()
	l.await(t, 50)
	if took := time.Since(began); took > patience/2 {
		t.Errorf("50 requests took %v", took)
	}
}

// TestRelayAddedLater: streams rotate, so that a relay that was not there when they began gets
// its share, and no request notices.
func TestRelayAddedLater(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	a, b := envoytest.NewRelay(t, server.Addr, nil), envoytest.NewRelay(t, server.Addr, nil)
	b.Kill()
	e := envoytest.Start(t, envoytest.Options{
		Plugin: rotating("10s"),
		Redis:  []string{a.Addr}, Quiet: true, Workers: 4, Upstream: envoytest.NewUpstream(t, nil).Addr,
		Edit: func(c *envoyconf.Config) { envoytest.Relayed(c, "redis", a.Addr, b.Addr) },
	})
	testenv.Wait(t, patience, func() error { return decided(e) })
	l := startLoad(t, e, clients)
	l.await(t, 200)
	before := l.failed.Load()
	b.Restart()
	const opened = "http.relay.downstream_rq_total"
	testenv.Wait(t, patience, func() error {
		if n := b.Stats(opened)[opened]; n < 3 {
			return fmt.Errorf("the relay that came later has had %d streams", n)
		}
		return nil
	})
	l.await(t, 200)
	l.stop()
	if failed := l.failed.Load() - before; failed != 0 {
		t.Errorf("%d requests were not decided while streams rotated", failed)
	}
	// One stream for each worker that asks, and another while it is replaced.
	if n := a.Stats(activeStreams)[activeStreams] + b.Stats(activeStreams)[activeStreams]; n > 8 {
		t.Errorf("%d streams are open, want no more than two for each of 4 workers", n)
	}
}

// TestRefusedPath: a cluster that leads to something else than a relay is named in the log.
func TestRefusedPath(t *testing.T) {
	t.Parallel()
	relay := envoytest.NewRelay(t, redistest.Start(t).Addr, func(c *envoyconf.Config) {
		c.Set("static_resources/listeners/relay/filter_chains/0/filters/0/typed_config/route_config/virtual_hosts/0/"+
			"routes/0/match/path", "/other")
	})
	e := envoytest.Start(t, envoytest.Options{
		Plugin: fmt.Sprintf(plugin, "1s"), Redis: []string{relay.Addr}, Workers: 1,
		Upstream: envoytest.NewUpstream(t, nil).Addr,
		Edit:     func(c *envoyconf.Config) { envoytest.Relayed(c, "redis", relay.Addr) },
	})
	testenv.Wait(t, patience, func() error {
		_ = decided(e)
		if !strings.Contains(e.Log(), "no such route at the relay") {
			return fmt.Errorf("the log does not say so")
		}
		return nil
	})
}

// TestHungRelay: a relay that hangs costs what waits for it, and what comes while the breaker is
// open. Then the other one decides, and the first one is none the worse when it goes on.
func TestHungRelay(t *testing.T) {
	t.Parallel()
	l, relays := startPair(t, rotating("200ms"))
	l.await(t, 200)
	used := inUse(t, relays)
	began := time.Now()
	signal(t, used, syscall.SIGSTOP)
	l.await(t, 400)
	t.Logf("%d requests were not decided; 400 were, %v after the relay hung", l.failed.Load(), time.Since(began))
	signal(t, used, syscall.SIGCONT)
	l.await(t, 400)
}

// TestOnlyRelay: without a relay nothing is decided; with the same one again everything is.
func TestOnlyRelay(t *testing.T) {
	t.Parallel()
	relay := envoytest.NewRelay(t, redistest.Start(t).Addr, nil)
	e := startPlugin(t, rotating("2s"), relay.Addr)
	l := startLoad(t, e, clients)
	l.await(t, 200)
	relay.Kill()
	testenv.Wait(t, patience, func() error { return undecided(e) })
	began := time.Now()
	relay.Restart()
	l.await(t, 400)
	t.Logf("400 requests were decided %v after the relay began to start", time.Since(began))
	failed := l.failed.Load()
	l.await(t, 200)
	if n := l.failed.Load() - failed; n != 0 {
		t.Errorf("%d requests were not decided once the relay was back", n)
	}
}

// undecided reports whether a request is refused because Redis did not decide it.
func undecided(e *envoytest.Envoy) error {
	if err := decided(e); err == nil || !strings.Contains(err.Error(), "503") {
		return fmt.Errorf("a request was decided, or failed otherwise: %v", err)
	}
	return nil
}

// signal sends a signal to a relay's process, which goes on when the test ends.
func signal(t *testing.T, relay *envoytest.Envoy, s syscall.Signal) {
	t.Helper()
	pid := relay.PID()
	testenv.OK(t, syscall.Kill(pid, s))
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
}
