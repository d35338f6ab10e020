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
	const istio, gateway = "outbound|9000||sluice-relay.redis.svc.cluster.local", "grpcroute/default/sluice-relay/rule/0"
	of := func(name string) string {
		return strings.Replace(fmt.Sprintf(plugin, "2s"), `"cluster": "redis"`, fmt.Sprintf(`"cluster": %q`, name), 1)
	}
	e := envoytest.Start(t, envoytest.Options{
		Plugin: of(istio), Beside: map[string]string{"gateway": of(gateway)},
		Redis: []string{relay.Addr}, Quiet: true, Workers: 1, Upstream: envoytest.NewUpstream(t, nil).Addr,
		Edit: func(c *envoyconf.Config) {
			c.Append("static_resources/clusters", c.HTTP2Cluster(istio, relay.Addr))
			c.Append("static_resources/clusters", c.HTTP2Cluster(gateway, relay.Addr))
		},
	})
	for _, url := range []string{e.URL, e.Beside["gateway"]} {
		testenv.Wait(t, patience, func() error { return decidedAt(url) })
	}
}
