package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// clusterLimit is the limit of each user of clusterRules.
const clusterLimit = 40

// clusterRules limit each user, a query parameter so that the access log names
// it, by two limits in one script call.
var clusterRules = fmt.Sprintf(`{"redis": {"cluster": "redis", "timeout": "3s"},
	"failure": {"mode": "allow", "breaker": {"max_open": "500ms"}},
	"rules": [{"name": "r", "key": [{"query": "u"}], "limits": [
	{"algorithm": "fixed_window", "anchor": "first_request", "limit": %d, %s},
	{"algorithm": "gcra", "limit": %d, "window": "300d"}]}]}`, clusterLimit, long, clusterLimit)

// startUsers begins with clients that become another user whenever one has
// reached its limit. The users' keys are on all nodes.
func startUsers(t *testing.T, s *setting) *load {
	t.Helper()
	const clients = 8
	var names [clients]int // each used by its client alone
	return startVarying(t, clients, func(client int, last reply) string {
		if last.status == http.StatusTooManyRequests {
			names[client]++
		}
		return fmt.Sprintf("%s/?u=%d.%d", s.URL, client, names[client])
	})
}

// TestClusterReshard: slots move while requests come. All are answered, and no
// user gets more than the limit, wherever its keys are.
func TestClusterReshard(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	s := start(t, clusterRules, envoytest.Options{Redis: cluster.Addrs(), Route: envoytest.Cluster})
	clients := startUsers(t, s)
	clients.await(10, http.StatusTooManyRequests)
	for to := range 2 {
		from := cluster.Nodes[2]
		args := []string{"--cluster", "reshard", from.Addr, "--cluster-slots", "1500", "--cluster-yes"}
		for option, node := range map[string]*redistest.Server{"--cluster-from": from, "--cluster-to": cluster.Nodes[to]} {
			id, err := node.Client().Do(ctx, "CLUSTER", "MYID").Text()
			testenv.OK(t, err)
			args = append(args, option, id)
		}
		if out, err := exec.Command(testenv.Tool(t, "redis-cli"), args...).CombinedOutput(); err != nil {
			t.Fatalf("redis-cli %q: %v\n%s", args, err, out)
		}
	}
	expectWithin(t, s, clients, clusterLimit)
}

// expectWithin ends the clients, and wants no user to have been admitted more often than that.
func expectWithin(t *testing.T, s *setting, clients *load, most int) {
	t.Helper()
	clients.await(10, http.StatusTooManyRequests)
	clients.stop()
	byUser := map[string]int{}
	for _, entry := range s.LoggedAll(clients.count()) {
		if entry.State == "allowed" {
			byUser[entry.Path]++
		}
	}
	for user, n := range byUser {
		testenv.Within(t, user+": requests admitted", n, 0, most)
	}
}

// TestClusterFailover: a primary is killed while requests come, and its replica
// takes over. Replication is asynchronous, so the new primary may lack the last
// charges: at most those of the requests that were under way.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 6)
	for _, node := range cluster.Nodes[:3] { // 5 s by default
		testenv.OK(t, node.Client().ConfigSet(ctx, "repl-diskless-sync-delay", "0").Err())
	}
	// A replica says that it is connected a moment before its primary streams its writes to it; what its primary
	// writes in between is in the primary's memory alone, and dies with it. So each primary writes, and waits for
	// the replica's word: that the empty database is emptied, as that needs no key, which another node may own.
	// https://redis.io/docs/latest/commands/wait/
	for _, node := range cluster.Nodes[:3] {
		primary := node.Client().Conn()
		defer primary.Close()
		testenv.Wait(t, 3*patience, func() error {
			flushed := primary.FlushAll(ctx).Err()
			acknowledged, err := primary.Wait(ctx, 1, time.Second).Result()
			return errors.Join(flushed, err, atLeast(int(acknowledged), 1, "replicas have the primary's writes"))
		})
	}
	s := start(t, clusterRules, envoytest.Options{Redis: cluster.Addrs(), Route: envoytest.Cluster})
	clients := startUsers(t, s)
	clients.await(10, http.StatusTooManyRequests)
	cluster.Nodes[0].Kill()
	testenv.Wait(t, 3*patience, func() error {
		for _, node := range cluster.Nodes[3:] {
			if role, err := node.Client().Do(ctx, "ROLE").Slice(); err == nil && role[0] == "master" {
				return nil
			}
		}
		return errors.New("no replica is a primary yet")
	})
	for i := range 20 { // of every user Redis decides again, wherever its key is
		testenv.Wait(t, 3*patience, func() error {
			if r := get(t, fmt.Sprintf("%s/?u=late-%d", s.URL, i)); r.header.Get("x-ratelimit-limit") == "" {
				return fmt.Errorf("user %d is not limited", i)
			}
			return nil
		})
	}
	expectWithin(t, s, clients, clusterLimit+1) // each user has one request under way
}
