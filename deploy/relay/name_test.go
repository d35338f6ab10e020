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
