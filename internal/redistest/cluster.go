package redistest

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// primaries is the number of primaries of a cluster, the least that Redis
// Cluster works with.
const primaries = 3

// Cluster is a Redis Cluster of three primaries that share all slots.
type Cluster struct {
	Nodes []*Server // the primaries first

	t testing.TB
}

// StartCluster runs a cluster of the given number of nodes, a multiple of
// three: three primaries, the others their replicas. It returns when every
// node knows every other and reports the cluster to be well.
func StartCluster(t testing.TB, nodes int) *Cluster {
	t.Helper()
	if nodes < primaries || nodes%primaries != 0 {
		t.Fatalf("a cluster of %d nodes: want a multiple of %d", nodes, primaries)
	}
	c := &Cluster{t: t}
	for range nodes {
		c.Nodes = append(c.Nodes, launch(t, testenv.FreePort(t, busOffset), []string{
			"--cluster-enabled", "yes", "--cluster-node-timeout", "2000",
		}))
	}
	for _, node := range c.Nodes {
		node.await()
	}
	c.join()
	for _, node := range c.Nodes {
		client := node.Client()
		testenv.Wait(t, startLimit, func() error { return well(client, nodes) })
	}
	return c
}

// join makes the nodes one cluster.
func (c *Cluster) join() {
	c.t.Helper()
	args := append([]string{"--cluster", "create"}, c.Addrs()...)
	args = append(args, "--cluster-replicas", fmt.Sprint(len(c.Nodes)/primaries-1), "--cluster-yes")
	out, err := exec.Command(testenv.Tool(c.t, "redis-cli"), args...).CombinedOutput()
	if err != nil {
		c.t.Fatalf("redis-cli %q: %v\n%s", args, err, out)
	}
}

// well reports whether a node sees the whole cluster working.
// https://redis.io/docs/latest/commands/cluster-info/
func well(client *redis.Client, nodes int) error {
	info, err := client.ClusterInfo(context.Background()).Result()
	if err != nil {
		return err
	}
	for _, want := range []string{"cluster_state:ok", fmt.Sprintf("cluster_known_nodes:%d", nodes)} {
		if !strings.Contains(info, want+"\r\n") {
			return fmt.Errorf("no %s in %q", want, info)
		}
	}
	return nil
}

// Addrs returns the addresses of all nodes, the primaries first.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, len(c.Nodes))
	for i, node := range c.Nodes {
		addrs[i] = node.Addr
	}
	return addrs
}

// Client returns a client of the cluster that speaks RESP2. It is closed when
// the test ends.
func (c *Cluster) Client() *redis.ClusterClient {
	client := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs(), Protocol: 2})
	c.t.Cleanup(func() { client.Close() })
	return client
}
