package e2e

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// shardLimit is a user's limit in the rule on live shards.
const shardLimit = 5

// besideRule is a pair of rules on one path: one limits a user whose keys are on a
// live shard, the other something whose keys are on the dead one.
type besideRule struct {
	name      string
	deadFirst bool // in rule order
	shadow    bool // the mode of the other rule
}

var besideRules = []besideRule{
	{name: "live-first"},
	{name: "dead-first", deadFirst: true},
	{name: "live-first-shadow", shadow: true},
	{name: "dead-first-shadow", deadFirst: true, shadow: true},
}

func (b besideRule) live() string { return b.name + "-user" }
func (b besideRule) dead() string { return b.name + "-other" }

// rules are the pair, in order.
func (b besideRule) rules() string {
	mode := "enforce"
	if b.shadow {
		mode = "shadow"
	}
	live := fmt.Sprintf(`{"name": %q, "match": {"path": "/%s"}, "key": [{"header": "x-user"}],
		"limits": [{"algorithm": "gcra", "limit": %d, %s}]}`, b.live(), b.name, shardLimit, long)
	dead := fmt.Sprintf(`{"name": %q, "match": {"path": "/%s"}, "key": [{"header": "x-other"}], "mode": %q,
		"limits": [{"algorithm": "gcra", "limit": 1000, %s}]}`, b.dead(), b.name, mode, long)
	if b.deadFirst {
		return dead + ", " + live
	}
	return live + ", " + dead
}

// identities finds identities of a rule by whether their keys are on the dead shard.
type identities struct {
	t      *testing.T
	client *redis.ClusterClient
	dead   string // its address
}

// next is the first identity from a number on, and the number after it.
func (d identities) next(rule string, onDead bool, from int) (identity string, after int) {
	d.t.Helper()
	for i := from; ; i++ {
		node, err := d.client.MasterForKey(ctx, fmt.Sprintf("rl:{%s|%d}:gcra:366d", rule, i))
		testenv.OK(d.t, err)
		if (node.Options().Addr == d.dead) == onDead {
			return fmt.Sprint(i), i + 1
		}
	}
}

// users are the users that try a pair of rules.
type users struct{ exhausted, fresh, other string }

func (d identities) of(b besideRule) (u users) {
	d.t.Helper()
	var after int
	u.exhausted, after = d.next(b.live(), false, 0)
	u.fresh, _ = d.next(b.live(), false, after)
	u.other, _ = d.next(b.dead(), true, 0)
	return u
}

// deadShardConfig waits long for answers, and remembers no rejections: every
// request is Redis' to decide.
func deadShardConfig(mode string) string {
	rules := ""
	for i, b := range besideRules {
		if i > 0 {
			rules += ", "
		}
		rules += b.rules()
	}
	return fmt.Sprintf(`{"redis": {"cluster": "redis", "timeout": "5s", "key_prefix": "rl"}, "deny_cache": {"size": 0},
		"failure": {"mode": %q}, "rules": [%s]}`, mode, rules)
}

// TestDeadShardLiftsNoRejection: one shard of three is dead, and the check of one
// rule fails with it. The rejection of the other rule stands, and a shadow rule's
// check changes nothing, in any failure mode and order of rules.
func TestDeadShardLiftsNoRejection(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		mode   string
		failed int // the status of what the live rule allows, as the other rule's check fails
	}{
		{mode: "allow", failed: http.StatusOK},
		{mode: "deny", failed: http.StatusServiceUnavailable},
		{mode: "local", failed: http.StatusOK},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			t.Parallel()
			cluster := redistest.StartCluster(t, 3)
			for _, node := range cluster.Nodes {
				testenv.OK(t, node.Client().ConfigSet(ctx, "cluster-require-full-coverage", "no").Err())
			}
			dead := cluster.Nodes[2]
			find := identities{t: t, client: cluster.Client(), dead: dead.Addr}
			s := onCluster(t, cluster, deadShardConfig(tc.mode))
			tried := map[string]users{}
			for _, b := range besideRules {
				u := find.of(b)
				tried[b.name] = u
				got := repeat(t, shardLimit+1, s.URL+"/"+b.name, u.exhausted, u.other)
				expectTally(t, b.name+" before", got, tally{http.StatusOK: shardLimit, http.StatusTooManyRequests: 1})
			}
			dead.Kill()
			for _, b := range besideRules {
				failed, rejected := tc.failed, http.StatusTooManyRequests
				if b.shadow {
					failed = http.StatusOK
				}
				want := tally{failed: shardLimit, rejected: 3}
				if failed == http.StatusServiceUnavailable { // what they charged is given back
					want = tally{failed: shardLimit + 3}
				}
				t.Run(b.name, func(t *testing.T) {
					u := tried[b.name]
					expectTally(t, "an exhausted user", repeat(t, 10, s.URL+"/"+b.name, u.exhausted, u.other),
						tally{http.StatusTooManyRequests: 10})
					expectTally(t, "a fresh user", repeat(t, shardLimit+3, s.URL+"/"+b.name, u.fresh, u.other), want)
				})
			}
			testenv.Wait(t, patience, func() error {
				const failures = "wasmcustom.sluice.redis.cause.error_reply.errors_total"
				return atLeast(int(s.Stats(failures)[failures]), 4*(10+shardLimit+3), "checks that failed")
			})
		})
	}
}

// repeat sends requests of a user one after the other, and counts the answers.
func repeat(t *testing.T, n int, url, user, other string) tally {
	t.Helper()
	return burst(t, n, 1, []string{url}, "x-user: "+user, "x-other: "+other)
}
