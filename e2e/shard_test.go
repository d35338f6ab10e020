package e2e

import (
	"fmt"
	"math"
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

// TestOneShardOfThree: one shard of a cluster hangs, and then is dead. With all defaults
// the checks of the others are decided.
func TestOneShardOfThree(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	for _, node := range cluster.Nodes {
		testenv.OK(t, node.Client().ConfigSet(ctx, "cluster-require-full-coverage", "no").Err())
	}
	var live []bool // the user, a number, has its keys on another node
	for u, client := 0, cluster.Client(); u < 300; u++ {
		node, err := client.MasterForKey(ctx, fmt.Sprintf("rl:{r|%d}:gcra:1d", u))
		testenv.OK(t, err)
		live = append(live, node.Options().Addr != cluster.Nodes[2].Addr)
	}
	s := start(t, `{"redis": {"cluster": "redis"}, `+
		`"rules": [{"name": "r", "key": [{"query": "u"}], `+
		`"limits": [{"algorithm": "gcra", "limit": 1000000, "window": "1d"}]}]}`,
		envoytest.Options{Redis: cluster.Addrs(), Route: envoytest.Cluster, Edit: func(c *envoyconf.Config) {
			// The timeouts of deploy/envoy/redis-cluster.yaml.
			const filter = "static_resources/listeners/redis_proxy/filter_chains/0/filters/0/typed_config"
			c.Set(filter+"/settings/op_timeout", "0.02s")
			c.Set("static_resources/clusters/redis_servers/connect_timeout", "0.04s")
		}})
	sent := make([]int, 8)
	clients := startVarying(t, len(sent), func(client int, _ reply) string {
		sent[client]++
		return fmt.Sprintf("%s/?u=%d", s.URL, (sent[client]*7+client*11)%len(live))
	})
	clients.await(100, http.StatusOK)
	for _, fault := range []struct {
		name   string
		signal syscall.Signal
	}{{"hangs", syscall.SIGSTOP}, {"is dead", syscall.SIGKILL}} {
		cluster.Nodes[2].Signal(fault.signal)
		before := clients.count()
		time.Sleep(3 * time.Second) // the breaker and the connections have had their time
		clients.await(1500, http.StatusOK)
		decided, all := map[bool]int{}, map[bool]int{} // by whether the user's shard lives
		for _, entry := range s.LoggedAll(clients.count())[before:] {
			var user int
			if _, err := fmt.Sscanf(entry.Path, "/?u=%d", &user); err != nil {
				t.Fatal(err)
			}
			if all[live[user]]++; entry.State == "allowed" {
				decided[live[user]]++
			}
		}
		t.Logf("a shard %s: of the others %d of %d decided, of it %d of %d; the breaker opened %d times", fault.name,
			decided[true], all[true], decided[false], all[false], strings.Count(s.Log(), "redis does not decide"))
		testenv.Within(t, "the number of requests of live shards", all[true], 500, math.MaxInt)
		testenv.Within(t, "how many of them were decided", decided[true]*100, all[true]*95, math.MaxInt)
	}
	clients.stop()
	testenv.Within(t, "the worst latency", clients.worst, 0, stuck)
}
