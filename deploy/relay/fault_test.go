package relay_test

import (
	"errors"
	"fmt"
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

// activeStreams is a relay's count of the streams that it has.
const activeStreams = "http.relay.downstream_rq_active"

// pair starts two relays in front of a Redis, and load. inUse is the relay that has the limiter's stream: one that
// rotates is at neither while the one count and then the other is read.
func (l *limiter) pair(t *testing.T) (inUse func() *envoytest.Envoy) {
	t.Helper()
	server := redistest.Start(t)
	var relays []*envoytest.Envoy
	for _, port := range l.ports {
		relays = append(relays, envoytest.NewRelayAt(t, port, server.Addr, nil))
	}
	l.load(t)
	l.await(t, 200)
	return func() (used *envoytest.Envoy) {
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
}

// oneOfTwo: a relay that drains costs nothing, and its end what was in flight at most, in good order
// or not.
var oneOfTwo = relayTest{name: "one-of-two", relays: 2, play: func(t *testing.T, l *limiter) {
	inUse := l.pair(t)
	used := inUse()
	drain(t, used)
	testenv.Same(t, "requests that were not decided while the relay drained", l.await(t, 200), 0)
	used.Stop()
	testenv.Within(t, "requests that were not decided when the relay ended", l.await(t, 200), 0, clients)
	used.Restart()
	l.kill(t, inUse)
}}

// oneOfTwoWhileStreamsRotate: streams leave a relay that drains, so that its end costs nothing. Where
// one is killed, Envoy gives its relays streams by turns, and the dead one's may be next: a stream in
// place of a lost one is probed first, so that nothing more fails than what was in flight.
var oneOfTwoWhileStreamsRotate = relayTest{
	name: "one-of-two-while-streams-rotate", relays: 2, rotating: true,
	play: func(t *testing.T, l *limiter) {
		inUse := l.pair(t)
		used := inUse()
		drain(t, used)
		testenv.Wait(t, patience, func() error { return left(used) })
		used.Stop()
		l.await(t, 200)
		testenv.Same(t, "requests that were not decided", l.failed.Load(), 0)
		used.Restart()
		l.kill(t, inUse)
	},
}

// kill kills one of two relays, the one in use, again and again: what was in flight fails, and nothing more.
func (l *limiter) kill(t *testing.T, inUse func() *envoytest.Envoy) {
	t.Helper()
	for round := range 6 {
		l.await(t, 200)
		used := inUse()
		used.Kill()
		testenv.Within(t, fmt.Sprintf("requests that were not decided in round %d", round), l.await(t, 200), 0, clients)
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
	resp, _, err := testenv.Send(http.MethodGet, listenerURL(t, relay, "drain")+"/drain", "")
	testenv.OK(t, err)
	testenv.Same(t, "status of /drain", resp.StatusCode, http.StatusOK)
}

// listenerURL is where another listener of a relay listens, at a port that the system chose.
func listenerURL(t *testing.T, relay *envoytest.Envoy, name string) string {
	t.Helper()
	_, text, err := testenv.Send(http.MethodGet, relay.Admin+"/listeners", "")
	testenv.OK(t, err)
	_, addr, _ := strings.Cut(text, name+"::")
	addr, _, found := strings.Cut(addr, "\n")
	if !found {
		t.Fatalf("no listener %q in %s", name, text)
	}
	return "http://" + addr
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
		resp, text, err := testenv.Send(c.method, stats+c.path, "")
		testenv.OK(t, err)
		testenv.Same(t, c.method+" "+c.path, resp.StatusCode, c.status)
		testenv.Same(t, c.method+" "+c.path+" has "+c.has, strings.Contains(text, c.has), true)
	}
	drain(t, relay)
	testenv.Wait(t, patience, func() error { return left(relay) })
	resp, _, err := testenv.Send(http.MethodGet, stats+"/ready", "")
	testenv.OK(t, err)
	testenv.Same(t, "status of /ready, which liveness asks, of a relay that drains", resp.StatusCode, http.StatusOK)
}

// redisDropsRelays: Redis closes its clients' connections behind the relay.
var redisDropsRelays = relayTest{name: "redis-drops-relays", rotating: true, play: func(t *testing.T, l *limiter) {
	server := redistest.Start(t)
	envoytest.NewRelayAt(t, l.ports[0], server.Addr, nil)
	l.load(t)
	for range 5 {
		l.await(t, 200)
		testenv.OK(t, server.Client().Do(t.Context(), "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes").Err())
		testenv.Within(t, "requests that were not decided, at most those in flight", l.await(t, 200), 0, clients)
	}
}}

// redisBack: a Redis that was away decides again, through a relay that stayed.
var redisBack = relayTest{name: "redis-back", timeout: "500ms", play: func(t *testing.T, l *limiter) {
	server := redistest.Start(t)
	envoytest.NewRelayAt(t, l.ports[0], server.Addr, nil)
	testenv.Wait(t, patience, l.decided)
	server.Kill()
	for range 3 {
		testenv.OK(t, l.undecided())
	}
	server.Restart()
	l.load(t)
	began := time.Now()
	l.await(t, 400)
	if took := time.Since(began); took > patience/2 {
		t.Errorf("400 requests took %v", took)
	}
}}

// relayAddedLater: streams rotate, so that a relay that was not there when they began gets
// its share, and no request notices.
var relayAddedLater = relayTest{
	name: "relay-added-later", relays: 2, rotating: true,
	play: func(t *testing.T, l *limiter) {
		server := redistest.Start(t)
		a := envoytest.NewRelayAt(t, l.ports[0], server.Addr, nil)
		l.load(t)
		l.await(t, 200)
		before := l.failed.Load()
		b := envoytest.NewRelayAt(t, l.ports[1], server.Addr, nil)
		const opened = "http.relay.downstream_rq_total"
		testenv.Wait(t, patience, func() error {
			if n := b.Stats(opened)[opened]; n < 3 {
				return fmt.Errorf("the relay that came later has had %d streams", n)
			}
			return nil
		})
		l.await(t, 200)
		l.stop()
		testenv.Same(t, "requests that were not decided while streams rotated", l.failed.Load()-before, 0)
		// The worker's, and another while it is replaced.
		streams := a.Stats(activeStreams)[activeStreams] + b.Stats(activeStreams)[activeStreams]
		testenv.Within(t, "open streams", streams, 0, 2)
	},
}

// refusedPath: a cluster that leads to something else than a relay is named in the log.
var refusedPath = relayTest{name: "refused-path", timeout: "1s", play: func(t *testing.T, l *limiter) {
	envoytest.NewRelayAt(t, l.ports[0], redistest.Start(t).Addr, func(c *envoyconf.Config) {
		c.Set(relayManager+"/route_config/virtual_hosts/0/routes/0/match/path", "/other")
	})
	testenv.Wait(t, patience, func() error {
		_ = l.decided()
		if !strings.Contains(l.Log(), "no such route at the relay") {
			return errors.New("the log does not say so")
		}
		return nil
	})
}}

// hungRelay: a relay that hangs costs what waits for it, and what comes while the breaker is
// open. Then the other one decides, and the first one is none the worse when it goes on.
var hungRelay = relayTest{
	name: "hung-relay", relays: 2, rotating: true, timeout: "200ms",
	play: func(t *testing.T, l *limiter) {
		pid := l.pair(t)().PID()
		t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
		began := time.Now()
		testenv.OK(t, syscall.Kill(pid, syscall.SIGSTOP))
		failed := l.await(t, 400)
		t.Logf("%d requests were not decided; 400 were, %v after the relay hung", failed, time.Since(began))
		testenv.OK(t, syscall.Kill(pid, syscall.SIGCONT))
		l.await(t, 400)
	},
}

// onlyRelay: without a relay nothing is decided; with the same one again everything is.
var onlyRelay = relayTest{name: "only-relay", rotating: true, timeout: "2s", play: func(t *testing.T, l *limiter) {
	relay := envoytest.NewRelayAt(t, l.ports[0], redistest.Start(t).Addr, nil)
	l.load(t)
	l.await(t, 200)
	relay.Kill()
	testenv.Wait(t, patience, l.undecided)
	began := time.Now()
	relay.Restart()
	l.await(t, 400)
	t.Logf("400 requests were decided %v after the relay began to start", time.Since(began))
	testenv.Same(t, "requests that were not decided once the relay was back", l.await(t, 200), 0)
}}

// Control planes name clusters in ways that no host may have; what the relay is asked for is a host all the same.
var (
	clusterOfIstio = relayTest{
		name: "cluster-of-istio", cluster: "outbound|9000||sluice-relay.redis.svc.cluster.local",
		play: func(t *testing.T, l *limiter) {
			envoytest.NewRelayAt(t, l.ports[0], redistest.Start(t).Addr, nil)
			testenv.Wait(t, patience, l.decided)
		},
	}
	clusterOfEnvoyGateway = relayTest{
		name: "cluster-of-envoy-gateway", cluster: "grpcroute/default/sluice-relay/rule/0", play: clusterOfIstio.play,
	}
)

// Where a relay bounds its streams and connections.
const (
	relayManager = "static_resources/listeners/relay/filter_chains/0/filters/0/typed_config"
	httpOptions  = relayManager + "/common_http_protocol_options"
)

// Operators may bound how long a relay's streams and connections live. A connection's end leaves its streams to
// finish, and they rotate to another one; a stream's own end fails what is in flight.
var (
	relayEndsConnections = relayTest{name: "relay-ends-connections", rotating: true, play: func(t *testing.T, l *limiter) {
		l.bounded(t, `{max_connection_duration: 1s}`, "http.relay.downstream_cx_max_duration_reached", 0)
	}}
	relayEndsStreams = relayTest{name: "relay-ends-streams", play: func(t *testing.T, l *limiter) {
		l.bounded(t, `{max_stream_duration: 1s}`, "http.relay.downstream_rq_max_duration_reached", clients)
	}}
)

// bounded starts a relay with bounds, and wants so many requests to be undecided at most at each end that it counts.
func (l *limiter) bounded(t *testing.T, bounds, count string, each int64) {
	t.Helper()
	relay := envoytest.NewRelayAt(t, l.ports[0], redistest.Start(t).Addr, func(c *envoyconf.Config) {
		c.Set(httpOptions, c.Fragment(bounds))
	})
	l.load(t)
	testenv.Wait(t, patience, func() error {
		if n := relay.Stats(count)[count]; n < 3 {
			return fmt.Errorf("%d have ended", n)
		}
		return nil
	})
	l.stop()
	ends := relay.Stats(count)[count]
	testenv.Within(t, "requests that were not decided", l.failed.Load(), 0, ends*each)
	t.Logf("%d ends, %d requests were not decided, %d were", ends, l.failed.Load(), l.admitted.Load())
}

// idleStreams: a relay may end a stream that no request uses; the next request opens another one.
var idleStreams = relayTest{name: "idle-streams", play: func(t *testing.T, l *limiter) {
	relay := envoytest.NewRelayAt(t, l.ports[0], redistest.Start(t).Addr, func(c *envoyconf.Config) {
		c.Set(relayManager+"/stream_idle_timeout", "1s")
	})
	testenv.Wait(t, patience, l.decided)
	for range 3 {
		testenv.Wait(t, patience, func() error {
			if n := relay.Stats(activeStreams)[activeStreams]; n != 0 {
				return fmt.Errorf("%d streams are open", n)
			}
			return nil
		})
		testenv.SameError(t, "the next request", l.decided(), nil)
	}
}}
