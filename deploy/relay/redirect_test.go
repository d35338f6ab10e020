package relay_test

import (
	"fmt"
	"net/http"
	"sync"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// redirected is a configuration whose routes name their Redis clusters, with a default. A request
// is charged, and holds a slot until it ends.
const redirected = `{
	"redis": {"timeout": "10s",
		"cluster": {"metadata": ["gateway.envoyproxy.io/extension-backends", "redis"], "default": "relay/two"}},
	"failure": {"mode": "deny"},
	"rules": [
		{"name": "r", "key": [{"header": "x-user"}],
			"limits": [{"algorithm": "fixed_window", "limit": 1000, "window": "8784h"}]},
		{"name": "slots", "key": [{"constant": "all"}],
			"limits": [{"algorithm": "concurrency", "limit": 500, "ttl": "1h"}]}]}`

// redirecting are the routes of a limiter that follows redirects itself.
const redirecting = `
- match: {prefix: /one}
  route: &route {cluster: upstream, internal_redirect_policy: {max_internal_redirects: 1}}
  metadata: {filter_metadata: {gateway.envoyproxy.io/extension-backends: {redis: relay/one}}}
- match: {prefix: /two}
  route: *route
  metadata: {filter_metadata: {gateway.envoyproxy.io/extension-backends: {redis: relay/two}}}
- match: {prefix: /}
  route: *route
`

// follow is an upstream that redirects a path such as /one?/two to what stands behind "?".
func follow(w http.ResponseWriter, r *http.Request) {
	if r.URL.RawQuery != "" {
		w.Header().Set("location", "http://"+r.Host+r.URL.RawQuery)
		w.WriteHeader(http.StatusFound)
	}
}

// TestRedirectToAnotherCluster: a request that Envoy redirects to a route of another Redis cluster
// is one request, of the Redis that its first route names. That one is charged once and gets its
// slot back; the other one is not asked.
func TestRedirectToAnotherCluster(t *testing.T) {
	t.Parallel()
	const clients, each = 4, 20
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	upstream := envoytest.NewUpstream(t, http.HandlerFunc(follow))
	e := startNamed(t, servers, redirected, upstream.Addr, redirecting)
	for _, path := range []string{"/one", "/two"} {
		testenv.Wait(t, patience, func() error { return decidedAt(e, path) })
	}
	cases := []struct {
		first, second string
		charged       int // of servers
	}{{"/one", "/two", 0}, {"/two", "/one", 1}, {"/default", "/one", 1}, {"/one", "/default", 0}}
	before := upstream.Count()
	var all sync.WaitGroup
	for _, c := range cases {
		for range clients {
			all.Go(func() {
				for range each {
					status, _ := getAs(t, e, c.first+"?"+c.second, c.first+c.second)
					testenv.Same(t, c.first+c.second+": status", status, http.StatusOK)
				}
			})
		}
	}
	all.Wait()
	testenv.Same(t, "requests of the upstream", upstream.Count()-before, 2*clients*each*len(cases))
	for _, c := range cases {
		what := c.first + c.second
		_, remaining := getAs(t, e, c.first, what)
		testenv.Same(t, what+": remaining", remaining, fmt.Sprint(1000-clients*each-1))
		for i, server := range servers {
			keys, err := server.Client().Keys(t.Context(), "rl:{r|"+what+"}*").Result()
			testenv.SameError(t, "KEYS", err, nil)
			testenv.Same(t, fmt.Sprintf("%s: that server %d has the counter", what, i), len(keys) == 1, i == c.charged)
		}
	}
	for _, server := range servers {
		testenv.Wait(t, patience, func() error { return slotsHeld(t, server) })
	}
}

// getAs sends a request of a user.
func getAs(t *testing.T, e *envoytest.Envoy, path, user string) (status int, remaining string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, e.URL+path, nil)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	request.Header.Set("x-user", user)
	resp, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Error(err)
		return 0, ""
	}
	resp.Body.Close()
	return resp.StatusCode, resp.Header.Get("x-ratelimit-remaining")
}

// slotsHeld is an error while a Redis lends slots.
func slotsHeld(t *testing.T, server *redistest.Server) error {
	t.Helper()
	held, err := server.Client().ZCard(t.Context(), "rl:{slots|all}:concurrency").Result()
	if err == nil && held != 0 {
		err = fmt.Errorf("%d slots of requests that have ended are held", held)
	}
	return err
}

// startNamed runs an Envoy whose clusters relay/one and relay/two lead to two Redis, through a relay
// each, with routes that may name them.
func startNamed(
	t *testing.T, servers []*redistest.Server, plugin, upstream, routes string,
) *envoytest.Envoy {
	t.Helper()
	names, relays := []string{"relay/one", "relay/two"}, []string(nil)
	for _, server := range servers {
		relays = append(relays, envoytest.NewRelay(t, server.Addr, nil).Addr)
	}
	return envoytest.Start(t, envoytest.Options{
		Plugin: plugin, Redis: relays[:1], Workers: 2, Upstream: upstream,
		Edit: func(c *envoyconf.Config) {
			const clusters = "static_resources/clusters"
			c.Set(envoyconf.ConnectionManager+"/route_config/virtual_hosts/0/routes", c.Fragment(routes))
			for i := range names {
				if i > 0 {
					c.Append(clusters, c.Fragment("{name: redis}"))
				}
				envoytest.Relayed(c, "redis", relays[i])
				c.Set(clusters+"/redis/load_assignment/cluster_name", names[i])
				c.Set(clusters+"/redis/name", names[i])
			}
		},
	})
}
