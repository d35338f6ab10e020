package e2e

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// slotTTL is the shortest ttl there is.
const slotTTL = 5 * time.Second

// gauge is an upstream that does as requests say, and knows how many it has at once.
type gauge struct{ now, most atomic.Int64 }

func (g *gauge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer g.enter()()
	obedient(w, r)
}

// enter counts one more, until it leaves.
func (g *gauge) enter() (leave func()) {
	now := g.now.Add(1)
	for most := g.most.Load(); now > most && !g.most.CompareAndSwap(most, now); most = g.most.Load() {
	}
	return func() { g.now.Add(-1) }
}

// slotRule is the format of a configuration with one limit on what is in flight.
const slotRule = `{` + patient + bothHeaders + `"rules": [{"name": "chat", "key": [{"constant": "k"}],
	"limits": [{"algorithm": "concurrency", "limit": %d, "ttl": "5s"}]}]}`

const slotKey = "{chat|k}:concurrency" // behind the prefix

// awaitHeld waits until Redis knows of so many slots under a key.
func (s *setting) awaitHeld(t testing.TB, key string, want int) {
	t.Helper()
	testenv.Wait(t, patience, func() error {
		n, err := s.client.ZCard(ctx, s.prefix+key).Result()
		if err == nil && n != int64(want) {
			err = fmt.Errorf("%d slots are held, want %d", n, want)
		}
		return err
	})
}

// TestSlotsOfACrowd: of 200 clients' requests against a limit of 20 there are never more than 20 at once at the
// upstream, and they fill it: over two Envoys, and in the embedded store over four workers.
func TestSlotsOfACrowd(t *testing.T) {
	t.Parallel()
	g := new(gauge)
	upstream, rule := envoytest.NewUpstream(t, g).Addr, fmt.Sprintf(slotRule, 20)
	a := start(t, rule, envoytest.Options{
		Quiet: true, Workers: 4, Upstream: upstream,
		Beside: map[string]string{"local": strings.Replace(rule, patient, "", 1)},
	})
	b := start(t, rule, envoytest.Options{Redis: []string{a.redis.Addr}, Upstream: upstream, Quiet: true})
	for name, urls := range map[string][]string{"two Envoys": {a.URL, b.URL}, "one Envoy": {a.Beside["local"]}} {
		g.most.Store(0)
		l := startVarying(t, 200, func(client int, _ reply) string { return urls[client%len(urls)] }, "x-pause: 40ms")
		l.await(300, http.StatusOK)
		l.await(1, http.StatusTooManyRequests)
		testenv.Wait(t, patience, func() error { return atLeast(int(g.most.Load()), 20, "at once at the upstream") })
		testenv.Same(t, name+": the number of statuses", len(l.stop()), 2)
		testenv.Same(t, name+": how many are at once at the upstream", g.most.Load(), 20)
		a.awaitHeld(t, slotKey, 0)
	}
	expectHeaders(t, get(t, a.Beside["local"]), map[string]string{"x-ratelimit-remaining": "19"})
}

// http2 speaks HTTP/2 without TLS.
func http2() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Transport{Protocols: protocols, DisableCompression: true}
}

// hold begins a request that lasts until stop is called, and returns when it has its
// response headers.
func hold(t testing.TB, url string, headers ...string) (stop func()) {
	t.Helper()
	held, cancel := context.WithCancel(ctx)
	req, err := newRequest(held, url, headers...)
	testenv.OK(t, err)
	client := &http.Client{Transport: &http.Transport{}}
	resp, err := client.Do(req)
	testenv.OK(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("status %d, want 200", resp.StatusCode)
	}
	t.Cleanup(cancel)
	return func() {
		cancel()
		resp.Body.Close()
		client.CloseIdleConnections()
	}
}

// oneSlot is one slot, and other rules that may end a request which has it.
const oneSlot = `{"rules": [
	{"name": "chat", "key": [{"constant": "k"}], "limits": [{"algorithm": "concurrency", "limit": 1, "ttl": "1h"}]},
	{"name": "never", "match": {"headers": {"x-never": "yes"}},
		"limits": [{"algorithm": "fixed_window", "limit": 1, ` + long + `}]},
	{"name": "line", "match": {"headers": {"x-line": "yes"}}, "limits": [
		{"algorithm": "leaky_bucket", "overflow": "queue", "limit": 1, "window": "1h", "max_delay": "1h", "burst": 5}]},
	{"name": "shadow", "mode": "shadow", "match": {"headers": {"x-shadow": "yes"}}, "key": [{"constant": "k"}],
		"limits": [{"algorithm": "concurrency", "limit": 1}, {"algorithm": "fixed_window", "limit": 1, ` + long + `}]}]}`

// routesOfEnds are routes on which Envoy ends a stream in its own ways.
const routesOfEnds = `
- name: all
  domains: ["*"]
  routes:
  - {match: {path: /direct}, direct_response: {status: 404}}
  - {match: {path: /timeout}, route: {cluster: upstream, timeout: 1s, prefix_rewrite: /}}
  - {match: {path: /nowhere}, route: {cluster_header: x-no-such-header}}
  - {match: {prefix: /}, route: {cluster: upstream, timeout: 0s}}
`

// slotsAreGivenBack however a stream ends: each case may use the one slot, and none
// is left.
var slotsAreGivenBack = plain{
	name:   "slots are given back",
	config: oneSlot,
	worker: true,
	edit: func(_ *testing.T, c *envoyconf.Config, _ string) {
		c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts", c.Fragment(routesOfEnds))
	},
	play: func(t *testing.T, s *setting) {
		s.upstream.Handle(http.HandlerFunc(obedient))
		get(t, s.URL, "x-never: yes", "x-shadow: yes", "x-line: yes") // uses up what there is
		for _, c := range []struct {
			name, path, header string
			status             int  // 0: no answer, or not all of it
			leaves             bool // the client, once it has the slot
		}{
			{name: "a response", path: "/", status: 200},
			{name: "a direct response", path: "/direct", status: 404},
			{name: "no cluster", path: "/nowhere", status: 503},
			{name: "the upstream resets", path: "/", header: "x-die: yes", status: 503},
			{name: "a timeout after the headers", path: "/timeout", header: "x-stay: yes", status: 200},
			{name: "another rule rejects", path: "/", header: "x-never: yes", status: 429},
			{name: "a shadow rule would reject", path: "/", header: "x-shadow: yes", status: 200},
			{name: "the client leaves the queue", path: "/", header: "x-line: yes", leaves: true},
			{name: "the client leaves the upstream", path: "/", header: "x-stay: yes", leaves: true},
		} {
			client := newClient()
			headers := []string{}
			if c.header != "" {
				headers = append(headers, c.header)
			}
			leaving, leave := context.WithCancel(ctx)
			var answer sync.WaitGroup
			answer.Go(func() {
				r, err := send(leaving, client, s.URL+c.path, headers...)
				if broken := c.status == 0 && err != nil; r.status != c.status && !broken {
					t.Errorf("%s: status %d, %v; want %d", c.name, r.status, err, c.status)
				}
			})
			if c.leaves {
				s.awaitHeld(t, slotKey, 1)
				leave()
			}
			answer.Wait()
			leave()
			client.CloseIdleConnections()
			testenv.Wait(t, patience, func() error {
				for _, key := range []string{slotKey, "{shadow|k}:concurrency"} {
					if n := s.client.Exists(ctx, s.prefix+key).Val(); n != 0 {
						return fmt.Errorf("%s: %s is left", c.name, key)
					}
				}
				return nil
			})
		}
	},
}
