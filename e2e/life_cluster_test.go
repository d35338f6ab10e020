package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestDeadShardLiftsNoRejection: one shard of three is dead, and the check of one
// rule fails with it. The rejection of the other rule stands, and a shadow rule's
// check changes nothing, in any failure mode and order of rules.
func TestDeadShardLiftsNoRejection(t *testing.T) {
	t.Parallel()
	const shardLimit = 5 // a user's, in the rule on live shards
	cluster := redistest.StartCluster(t, 3)
	for _, node := range cluster.Nodes {
		testenv.OK(t, node.Client().ConfigSet(ctx, "cluster-require-full-coverage", "no").Err())
	}
	client, dead := cluster.Client(), cluster.Nodes[2]
	// next is the first identity of a rule from a number on whose keys are on the dead shard, or are not.
	next := func(rule string, onDead bool, from int) int {
		for i := from; ; i++ {
			node, err := client.MasterForKey(ctx, fmt.Sprintf("rl:{%s|%d}:gcra:366d", rule, i))
			testenv.OK(t, err)
			if (node.Options().Addr == dead.Addr) == onDead {
				return i
			}
		}
	}
	// A pair of rules is on one path: one limits a user whose keys are on a live shard, the other something whose
	// keys are on the dead one.
	type pair struct {
		path                    string
		isShadow                bool // the mode of the other rule
		exhausted, fresh, other int  // identities
	}
	var (
		pairs []pair
		rules []string
	)
	for _, deadFirst := range []bool{false, true} {
		for _, mode := range []string{"enforce", "shadow"} {
			path := fmt.Sprintf("%s-%v", mode, deadFirst)
			p := pair{path: path, isShadow: mode == "shadow", other: next(path+"-other", true, 0)}
			p.exhausted = next(path+"-user", false, 0)
			p.fresh = next(path+"-user", false, p.exhausted+1)
			pairs = append(pairs, p)
			both := []string{
				fmt.Sprintf(`{"name": "%s-user", "match": {"path": "/%s"}, "key": [{"header": "x-user"}],
					"limits": [{"algorithm": "gcra", "limit": %d, %s}]}`, path, path, shardLimit, long),
				fmt.Sprintf(`{"name": "%s-other", "match": {"path": "/%s"}, "key": [{"header": "x-other"}], "mode": %q,
					"limits": [{"algorithm": "gcra", "limit": 1000, %s}]}`, path, path, mode, long),
			}
			if deadFirst {
				slices.Reverse(both)
			}
			rules = append(rules, both...)
		}
	}
	failed := map[string]int{ // the status of what the live rule allows, as the other rule's check fails
		"allow": http.StatusOK, "deny": http.StatusServiceUnavailable, "local": http.StatusOK,
	}
	plugins := map[string]string{} // which wait long for answers, and remember no rejections
	for mode := range failed {
		plugins[mode] = fmt.Sprintf(`{"redis": {"cluster": "redis", "timeout": "5s", "key_prefix": %q},
			"deny_cache": {"size": 0}, "failure": {"mode": %q}, "rules": [%s]}`, mode, mode, strings.Join(rules, ","))
	}
	s := start(t, plugins["allow"], envoytest.Options{Redis: cluster.Addrs(), Route: envoytest.Cluster, Beside: plugins})
	expect := func(t *testing.T, mode string, p pair, user, n int, want tally) {
		t.Helper()
		got := burst(t, n, 1, []string{s.Beside[mode] + "/" + p.path},
			fmt.Sprint("x-user: ", user), fmt.Sprint("x-other: ", p.other))
		expectTally(t, fmt.Sprint("user ", user), got, want)
	}
	for mode := range failed {
		for _, p := range pairs {
			expect(t, mode, p, p.exhausted, shardLimit+1, tally{http.StatusOK: shardLimit, http.StatusTooManyRequests: 1})
		}
	}
	dead.Kill()
	for mode, status := range failed {
		for _, p := range pairs {
			t.Run(mode+"/"+p.path, func(t *testing.T) {
				want := tally{status: shardLimit, http.StatusTooManyRequests: 3}
				switch {
				case p.isShadow:
					want = tally{http.StatusOK: shardLimit, http.StatusTooManyRequests: 3}
				case status == http.StatusServiceUnavailable: // what they charged is given back
					want = tally{status: shardLimit + 3}
				}
				expect(t, mode, p, p.exhausted, 10, tally{http.StatusTooManyRequests: 10})
				expect(t, mode, p, p.fresh, shardLimit+3, want)
			})
		}
	}
	testenv.Wait(t, patience, func() error {
		const failures = "wasmcustom.sluice.redis.cause.error_reply.errors_total"
		return atLeast(int(s.Stats(failures)[failures]), len(failed)*len(pairs)*(10+shardLimit+3), "checks that failed")
	})
}
