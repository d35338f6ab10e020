// Package relay_test runs the relay and the limiter of this directory in real Envoys, with
// other addresses and files and nothing else changed, and then has relays and peers misbehave.
package relay_test

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/promtest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// patience bounds waits; a loaded machine may take long to compile the plugin.
const patience = 60 * time.Second

const password = "correct-horse"

// relayTest is a test of a limiter and the relays that it asks. The limiters of all tests are listeners of one Envoy.
type relayTest struct {
	name     string
	timeout  string // of Redis; 10s unless set
	rotating bool   // streams live for a second
	relays   int    // 1 unless set
	cluster  string // its name; the test's unless set
	play     func(t *testing.T, l *limiter)
}

var relayTests = []relayTest{
	clusterOfEnvoyGateway, clusterOfIstio, cutAtEachByte, databaseOfAnother, hostilePeer, hungRelay, idleStreams,
	oneOfTwo, oneOfTwoWhileStreamsRotate, onlyRelay, primaryDies, primaryIsAskedToGo, redisBack, redisDropsRelays,
	refusedPath, relayAddedLater, relayEndsConnections, relayEndsStreams, rotatePassword,
}

// limiter asks relays at ports where a test has yet to start them.
type limiter struct {
	*envoytest.Envoy // of all limiters

	url   string
	ports []int // of its relays

	admitted, failed atomic.Int64 // of load
	stop             func()       // ends load
}

// TestRelay plays the tests. The limit is never reached, so that a request which is not admitted was not decided.
func TestRelay(t *testing.T) {
	t.Parallel()
	const plugin = `{"redis": {"cluster": %q, "timeout": %q%s}, "failure": {"mode": "deny"}, "rules": [
		{"name": "r", "key": [{"header": "x-user", "default": "-"}],
			"limits": [{"algorithm": "gcra", "limit": 1000000, "window": "1s"}]}]}`
	opts := envoytest.Options{
		Quiet: true, Workers: 1, Upstream: envoytest.NewUpstream(t, nil).Addr, Beside: map[string]string{},
	}
	limiters := map[*limiter]relayTest{}
	for _, test := range relayTests {
		l, rotates := new(limiter), ""
		for range max(1, test.relays) {
			l.ports = append(l.ports, testenv.FreePort(t))
		}
		if test.rotating {
			rotates = `, "max_stream_age": "1s"`
		}
		opts.Beside[test.name] = fmt.Sprintf(plugin, cmp.Or(test.cluster, test.name), cmp.Or(test.timeout, "10s"), rotates)
		limiters[l] = test
	}
	opts.Edit = func(c *envoyconf.Config) {
		for l, test := range limiters {
			var addrs []string
			for _, port := range l.ports {
				addrs = append(addrs, fmt.Sprintf("127.0.0.1:%d", port))
			}
			c.Append("static_resources/clusters", c.HTTP2Cluster(cmp.Or(test.cluster, test.name), addrs...))
		}
	}
	e := envoytest.Start(t, opts)
	for l, test := range limiters {
		l.Envoy, l.url = e, e.Beside[test.name]
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.play(t, l)
		})
	}
}

// decided is an error unless Redis decides a request.
func (l *limiter) decided() error {
	resp, _, err := testenv.Send(http.MethodGet, l.url, "")
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("status %d", resp.StatusCode)
	}
	return err
}

// undecided is an error unless a request is refused because Redis did not decide it.
func (l *limiter) undecided() error {
	if err := l.decided(); err == nil || !strings.Contains(err.Error(), "503") {
		return fmt.Errorf("a request was decided, or failed otherwise: %v", err)
	}
	return nil
}

// clients send requests one after the other, so that as many are in flight at most.
const clients = 8

// load has clients send requests, once Redis decides them, until it is stopped. They pause for a moment each time,
// which leaves the processors to relays and other tests.
func (l *limiter) load(t *testing.T) {
	t.Helper()
	testenv.Wait(t, patience, l.decided)
	done := make(chan struct{})
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(2 * time.Millisecond):
				}
				if err := l.decided(); err != nil {
					l.failed.Add(1)
				} else {
					l.admitted.Add(1)
				}
			}
		})
	}
	l.stop = sync.OnceFunc(func() { close(done); group.Wait() })
	t.Cleanup(l.stop)
}

// await returns when so many more requests of load were decided, and says how many more were not.
func (l *limiter) await(t *testing.T, more int64) (failed int64) {
	t.Helper()
	before, want := l.failed.Load(), l.admitted.Load()+more
	testenv.Wait(t, patience, func() error {
		if got := l.admitted.Load(); got < want {
			return fmt.Errorf("%d requests decided, %d failed; want %d", got, l.failed.Load(), want)
		}
		return nil
	})
	return l.failed.Load() - before
}

// TestShipped: a limiter without any secret decides everything, of the identity that the relay
// asks for. Another one's checks are refused, and its failure mode decides. The dashboard and the alerts of
// relays have data.
func TestShipped(t *testing.T) {
	t.Parallel()
	server, admin := redistest.StartWithUser(t, "relay.yaml", password)
	ca := testenv.NewAuthority(t)
	certify := func(c *envoyconf.Config, side, identity string) {
		cert, key := ca.Issue(identity[strings.LastIndex(identity, "/")+1:], identity)
		const tls = "/transport_socket/typed_config/common_tls_context"
		c.Set(side+tls+"/tls_certificates/0/certificate_chain/filename", cert)
		c.Set(side+tls+"/tls_certificates/0/private_key/filename", key)
		c.Set(side+tls+"/validation_context/trusted_ca/filename", ca.CertFile)
	}
	relay := envoytest.Start(t, envoytest.Options{
		File: "deploy/relay/relay.yaml", Env: []string{"REDIS_PASSWORD=" + password},
		Edit: func(c *envoyconf.Config) {
			c.SetRedis(server.Addr)
			certify(c, "static_resources/listeners/relay/filter_chains/0", "spiffe://cluster.local/ns/redis/sa/relay")
		},
	})
	limiters := map[string]*envoytest.Envoy{}
	for _, name := range []string{"gateway", "other"} {
		limiters[name] = envoytest.Start(t, envoytest.Options{
			File: "deploy/relay/limiter.yaml",
			Edit: func(c *envoyconf.Config) {
				c.SetUpstream(envoytest.NewUpstream(t, nil).Addr)
				c.Set("static_resources/clusters/relay/load_assignment/endpoints", c.Endpoints([]string{relay.Addr}))
				certify(c, "static_resources/clusters/relay", "spiffe://cluster.local/ns/default/sa/"+name)
			},
		})
	}
	limiters["gateway"].AwaitRejection("/", "20")
	keys, err := admin.Keys(t.Context(), "rl:*").Result()
	if err != nil || len(keys) != 1 {
		t.Errorf("Redis has the counters %q, %v; want one", keys, err)
	}
	users, err := admin.ClientList(t.Context()).Result()
	if err != nil || !strings.Contains(users, "user=sluice") {
		t.Errorf("the clients of Redis are %s, %v; want the user sluice", users, err)
	}
	for range 40 { // twice what the limit admits
		resp, _, err := testenv.Send(http.MethodGet, limiters["other"].URL, "")
		testenv.OK(t, err)
		testenv.Same(t, "status through a relay that refuses", resp.StatusCode, http.StatusOK)
		testenv.Same(t, "limit through a relay that refuses", resp.Header.Get("X-RateLimit-Limit"), "")
	}
	const refuses = "the relay refuses this proxy"
	if log := limiters["other"].Log(); !strings.Contains(log, refuses) {
		t.Errorf("the limiter's log does not say that %s:\n%s", refuses, log)
	}
	if denied := relay.Stats("http.relay.rbac.denied")["http.relay.rbac.denied"]; denied == 0 {
		t.Error("the relay has refused nothing")
	}
	stats := listenerURL(t, relay, "stats")
	_, metrics, err := testenv.Send(http.MethodGet, stats+"/stats/prometheus?filter=rbac", "")
	testenv.OK(t, err)
	alerted := `envoy_http_rbac_denied{envoy_http_conn_manager_prefix="relay"}`
	testenv.Same(t, "that its metrics have "+alerted, strings.Contains(metrics, alerted), true)
	promtest.StartOfRelay(t, strings.TrimPrefix(stats, "http://")).ExpectRelayData()
}

// TestNoSecret: what the limiter runs with has no password, and no Wasm but the limiter.
func TestNoSecret(t *testing.T) {
	t.Parallel()
	text := testenv.Read(t, "limiter.yaml")
	for _, word := range []string{"PASSWORD", "password", "username", "bridge", "TcpConnectionPoolProto"} {
		if strings.Contains(string(text), word) {
			t.Errorf("limiter.yaml has %q", word)
		}
	}
}
