package relay_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoyconf"
	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestClusterOfAMesh: control planes name clusters in ways that no host may have; what the relay
// is asked for is a host all the same.
func TestClusterOfAMesh(t *testing.T) {
	t.Parallel()
	relay := envoytest.NewRelay(t, redistest.Start(t).Addr, nil)
	for _, name := range []string{
		"outbound|9000||sluice-relay.redis.svc.cluster.local",
		"grpcroute/default/sluice-relay/rule/0",
	} {
		e := envoytest.Start(t, envoytest.Options{
			Plugin: strings.Replace(fmt.Sprintf(plugin, "2s"), `"cluster": "redis"`, fmt.Sprintf(`"cluster": %q`, name), 1),
			Redis:  []string{relay.Addr}, Quiet: true, Workers: 1, Upstream: envoytest.NewUpstream(t, nil).Addr,
			Edit: func(c *envoyconf.Config) {
				envoytest.Relayed(c, "redis", relay.Addr)
				c.Set("static_resources/clusters/redis/load_assignment/cluster_name", name)
				c.Set("static_resources/clusters/redis/name", name)
			},
		})
		testenv.Wait(t, patience, func() error { return decided(e) })
	}
}

// routes are two that name their Redis clusters as Envoy Gateway 1.10 does, and one that names none.
const routes = `
- match: {prefix: /one}
  route: {cluster: upstream}
  metadata: {filter_metadata: {gateway.envoyproxy.io/extension-backends: {redis: relay/one}}}
- match: {prefix: /two}
  route: {cluster: upstream}
  metadata: {filter_metadata: {gateway.envoyproxy.io/extension-backends: {redis: relay/two}}}
- match: {prefix: /}
  route: {cluster: upstream}
`

// TestClusterOfARoute: the Redis that a route names decides its requests; where no route names
// one, the failure mode does.
func TestClusterOfARoute(t *testing.T) {
	t.Parallel()
	names, servers := []string{"relay/one", "relay/two"}, []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	const where = `"cluster": {"metadata": ["gateway.envoyproxy.io/extension-backends", "redis"]}`
	e := startNamed(t, servers, strings.Replace(fmt.Sprintf(plugin, "2s"), `"cluster": "redis"`, where, 1),
		envoytest.NewUpstream(t, nil).Addr, routes)
	for i, path := range []string{"/one", "/two"} {
		testenv.Wait(t, patience, func() error { return decidedAt(e, path) })
		for j, server := range servers {
			if got, want := scripted(t, server) == nil, j <= i; got != want {
				t.Errorf("after %s: that the Redis of %s was asked is %v, want %v", path, names[j], got, want)
			}
		}
	}
	if err := decidedAt(e, "/other"); err == nil || !strings.Contains(err.Error(), "503") {
		t.Errorf("a route without a name: %v, want status 503", err)
	}
	if says := "the request's route names no cluster"; !strings.Contains(e.Log(), says) {
		t.Errorf("the log does not say that %s", says)
	}
}
