// Package relay_test runs the relay and the limiter of this directory in real Envoys, with
// other addresses and files and nothing else changed, and then has relays and peers misbehave.
package relay_test

import (
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

const (
	tls        = "/typed_config/common_tls_context"
	ownCert    = tls + "/tls_certificates/0/certificate_chain/filename"
	ownKey     = tls + "/tls_certificates/0/private_key/filename"
	authority  = tls + "/validation_context/trusted_ca/filename"
	relaySide  = "static_resources/listeners/relay/filter_chains/0/transport_socket"
	gatewayTLS = "static_resources/clusters/relay/transport_socket"
)

// certify gives a side of the connection its certificate.
func certify(c *envoyconf.Config, side, ca, cert, key string) {
	c.Set(side+ownCert, cert)
	c.Set(side+ownKey, key)
	c.Set(side+authority, ca)
}

// startShipped runs relay.yaml, and limiter.yaml with a certificate for an identity.
func startShipped(
	t *testing.T, redisAddr string, identities ...string,
) (relay *envoytest.Envoy, limiters []*envoytest.Envoy) {
	t.Helper()
	ca := testenv.NewAuthority(t)
	relay = envoytest.Start(t, envoytest.Options{
		File: "deploy/relay/relay.yaml", Env: []string{"REDIS_PASSWORD=" + password},
		Edit: func(c *envoyconf.Config) {
			c.SetRedis(redisAddr)
			cert, key := ca.Issue("relay", "spiffe://cluster.local/ns/redis/sa/relay")
			certify(c, relaySide, ca.CertFile, cert, key)
		},
	})
	upstream := envoytest.NewUpstream(t, nil).Addr
	for i, identity := range identities {
		limiters = append(limiters, envoytest.Start(t, envoytest.Options{
			File: "deploy/relay/limiter.yaml",
			Edit: func(c *envoyconf.Config) {
				c.SetUpstream(upstream)
				c.Set("static_resources/clusters/relay/load_assignment/endpoints", c.Endpoints([]string{relay.Addr}))
				cert, key := ca.Issue(fmt.Sprint("limiter", i), identity)
				certify(c, gatewayTLS, ca.CertFile, cert, key)
			},
		}))
	}
	return relay, limiters
}

// TestShipped: a limiter without any secret decides everything, of the identity that the relay
// asks for. Another one's checks are refused, and its failure mode decides. The dashboard and the alerts of
// relays have data.
func TestShipped(t *testing.T) {
	t.Parallel()
	server, admin := redistest.StartWithUser(t, "relay.yaml", password)
	relay, limiters := startShipped(t, server.Addr, "spiffe://cluster.local/ns/default/sa/gateway",
		"spiffe://cluster.local/ns/default/sa/other")
	limits(t, limiters[0], "20")
	keys, err := admin.Keys(t.Context(), "rl:*").Result()
	if err != nil || len(keys) != 1 {
		t.Errorf("Redis has the counters %q, %v; want one", keys, err)
	}
	users, err := admin.ClientList(t.Context()).Result()
	if err != nil || !strings.Contains(users, "user=sluice") {
		t.Errorf("the clients of Redis are %s, %v; want the user sluice", users, err)
	}
	for range 40 { // twice what the limit admits
		if status, limit := get(t, limiters[1].URL); status != http.StatusOK || limit != "" {
			t.Fatalf("through a relay that refuses: status %d, limit %q; want 200 and none", status, limit)
		}
	}
	const refuses = "the relay refuses this proxy"
	if log := limiters[1].Log(); !strings.Contains(log, refuses) {
		t.Errorf("the limiter's log does not say that %s:\n%s", refuses, log)
	}
	if denied := relay.Stats("http.relay.rbac.denied")["http.relay.rbac.denied"]; denied == 0 {
		t.Error("the relay has refused nothing")
	}
	stats := listenerURL(t, relay, "stats")
	_, metrics := fetch(t, http.MethodGet, stats+"/stats/prometheus?filter=rbac")
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

func get(t *testing.T, url string) (status int, limit string) {
	t.Helper()
	resp, err := http.Get(url)
	testenv.OK(t, err)
	defer resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("X-RateLimit-Limit")
}

// limits sends requests until one is rejected, by a limit of the given capacity.
func limits(t *testing.T, e *envoytest.Envoy, capacity string) {
	t.Helper()
	testenv.Wait(t, patience, func() error {
		status, limit := get(t, e.URL)
		if status != http.StatusTooManyRequests || limit != capacity {
			return fmt.Errorf("status %d, limit %q; want 429, %q", status, limit, capacity)
		}
		return nil
	})
}

// plugin is a configuration whose limit is never reached, so that a request which is not
// admitted was not decided.
const plugin = `{"redis": {"cluster": "redis", "timeout": %q}, "failure": {"mode": "deny"}, "rules": [
	{"name": "r", "key": [{"header": "x-user", "default": "-"}],
		"limits": [{"algorithm": "gcra", "limit": 1000000, "window": "1s"}]}]}`

// rotating is that configuration with streams that live for a second.
func rotating(timeout string) string {
	return strings.Replace(fmt.Sprintf(plugin, timeout), `"cluster": "redis"`,
		`"cluster": "redis", "max_stream_age": "1s"`, 1)
}

// startLimiter runs an Envoy that limits through relays.
func startLimiter(t *testing.T, timeout string, relays ...string) *envoytest.Envoy {
	t.Helper()
	return startPlugin(t, fmt.Sprintf(plugin, timeout), relays...)
}

// startPlugin runs an Envoy with a configuration that limits through relays.
func startPlugin(t *testing.T, plugin string, relays ...string) *envoytest.Envoy {
	t.Helper()
	e := envoytest.Start(t, envoytest.Options{
		Plugin: plugin, Redis: relays[:1], Quiet: true, Workers: 1,
		Upstream: envoytest.NewUpstream(t, nil).Addr,
		Edit:     func(c *envoyconf.Config) { envoytest.Relayed(c, "redis", relays...) },
	})
	testenv.Wait(t, patience, func() error { return decided(e) })
	return e
}

// decided reports whether Redis decides a request.
func decided(e *envoytest.Envoy) error { return decidedAt(e.URL) }

func decidedAt(url string) error {
	resp, err := http.Get(url)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// load is the requests that clients send one after the other.
type load struct {
	decided, failed atomic.Int64
	done            chan struct{}
	clients         sync.WaitGroup
}

// startLoad sends requests by clients of a connection each, as fast as they are answered: the faster, the
// more fails where a fault costs more than what is in flight.
func startLoad(t *testing.T, e *envoytest.Envoy, clients int) *load {
	t.Helper()
	return startLoadEvery(t, 0, e, clients)
}

// startLoadEvery has each client wait before each request, which leaves the processors to other tests.
func startLoadEvery(t *testing.T, interval time.Duration, e *envoytest.Envoy, clients int) *load {
	t.Helper()
	l := &load{done: make(chan struct{})}
	for range clients {
		l.clients.Go(func() {
			for {
				select {
				case <-l.done:
					return
				case <-time.After(interval):
				}
				if err := decided(e); err != nil {
					l.failed.Add(1)
				} else {
					l.decided.Add(1)
				}
			}
		})
	}
	t.Cleanup(sync.OnceFunc(l.stop))
	return l
}

func (l *load) stop() {
	select {
	case <-l.done:
	default:
		close(l.done)
	}
	l.clients.Wait()
}

// await returns when so many more requests were decided.
func (l *load) await(t *testing.T, more int64) {
	t.Helper()
	want := l.decided.Load() + more
	testenv.Wait(t, patience, func() error {
		if got := l.decided.Load(); got < want {
			return fmt.Errorf("%d requests decided, %d failed; want %d", got, l.failed.Load(), want)
		}
		return nil
	})
}
