package e2e

import (
	"fmt"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestHealthOfCluster: a redis_proxy answers for the whole cluster, so that the keys that Sluice
// reports are those of all nodes together. That of Envoy 1.36 refuses INFO: then there are none. It does not
// say whether it leads to a primary, which each worker otherwise does.
func TestHealthOfCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	client := cluster.Client()
	for i := range 300 {
		testenv.OK(t, client.Set(ctx, fmt.Sprint("other:", i), 1, 0).Err())
	}
	s := start(t, contractRules, envoytest.Options{Redis: cluster.Addrs(), Route: envoytest.Cluster})
	awaitWords(t, s.Envoy, s.URL, "redis", `answers(: (Redis|Valkey) [0-9.]+)?$`, 2)
	const keys = "wasmcustom.sluice.redis.cluster.redis.keys"
	if isEnvoy136(t) {
		testenv.Same(t, "the keys where INFO is refused", s.Stats(keys)[keys], 0)
		return
	}
	testenv.Wait(t, patience, func() error {
		get(t, s.URL)
		if n := s.Stats(keys)[keys]; n < 300 {
			return fmt.Errorf("%d keys are reported, want 300 and more", n)
		}
		return nil
	})
	for _, addr := range cluster.Addrs() {
		node := redis.NewClient(&redis.Options{Addr: addr, Protocol: 2})
		testenv.Same(t, "that the node "+addr+" has not all keys", node.DBSize(ctx).Val() < 300, true)
		node.Close()
	}
}
