package e2e

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// overrideRules have a rule of five requests for each user, by which operators can
// block users, free them, or change their limits; one with a penalty as well; and one
// with a tier that is unlimited.
const overrideRules = `{` + patient + `"headers": ["x-ratelimit", "draft"], "rules": [
	{"name": "o", "match": {"path": "/o"}, "key": [{"query": "u"}], "overrides": true, "limits": [
		{"algorithm": "fixed_window", "anchor": "first_request", "limit": 5,
			` + long + `}, {"algorithm": "gcra", "limit": 5, "window": "300d"}]},
	{"name": "p", "match": {"path": "/p"}, "key": [{"query": "u"}], "overrides": true,
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 5, ` + long + `}],
		"penalty": {"after": 4, "within": "1m", "for": ["1s", "3s"]}},
	{"name": "t", "match": {"path": "/t"}, "key": [{"query": "u"}], "overrides": true, "limits_by": {
		"source": {"header": "x-plan"}, "default": "staff",
			"values": {"staff": "unlimited", "none": [{"algorithm": "gcra", "limit": 0, ` + long + `}]}}}
	]}`

// twoEnvoys are two Envoys of two workers each on one Redis.
type twoEnvoys struct {
	t      *testing.T
	client redis.UniversalClient
	both   [2]*setting
}

// onEachRedis runs a test on a Redis, and on a Redis Cluster behind redis_proxy.
func onEachRedis(t *testing.T, plugin string, test func(t *testing.T, e *twoEnvoys)) {
	t.Helper()
	t.Run("one Redis", func(t *testing.T) {
		t.Parallel()
		server := redistest.Start(t)
		e := &twoEnvoys{t: t, client: server.Client()}
		for i := range e.both {
			e.both[i] = start(t, plugin, envoytest.Options{Redis: []string{server.Addr}, Workers: 2})
		}
		test(t, e)
	})
	t.Run("Redis Cluster", func(t *testing.T) {
		t.Parallel()
		cluster := redistest.StartCluster(t, 3)
		e := &twoEnvoys{t: t, client: cluster.Client()}
		for i := range e.both {
			e.both[i] = start(t, plugin, envoytest.Options{Redis: cluster.Addrs(), Route: envoytest.Cluster, Workers: 2})
		}
		test(t, e)
	})
}

func (e *twoEnvoys) urls(path string) []string {
	return []string{e.both[0].URL + path, e.both[1].URL + path}
}

// set sets what an operator would; "" takes it away.
func (e *twoEnvoys) set(tag, value string, life time.Duration) {
	e.t.Helper()
	key := "rl:{" + tag + "}:override"
	err := e.client.Del(ctx, key).Err()
	if value != "" && err == nil {
		err = e.client.Set(ctx, key, value, life).Err()
	}
	if err != nil {
		e.t.Fatal(err)
	}
}

// inForce waits for a second after something was set, during which the client hammers
// every worker, and then wants all of them to answer so.
func (e *twoEnvoys) inForce(what, path string, status int, headers ...string) {
	e.t.Helper()
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		burst(e.t, 8, 8, e.urls(path), headers...)
	}
	expectTally(e.t, what, burst(e.t, 40, 20, e.urls(path), headers...), tally{status: 40})
}

// TestOverridesEverywhere: whatever an operator sets is in force on every worker of
// every Envoy within a second, whatever these remember.
func TestOverridesEverywhere(t *testing.T) {
	t.Parallel()
	onEachRedis(t, overrideRules, func(t *testing.T, e *twoEnvoys) {
		expectTally(t, "as configured", burst(t, 40, 20, e.urls("/o?u=a")), tally{200: 5, 429: 35})
		e.set("o|a", "free", 0)
		e.inForce("free", "/o?u=a", http.StatusOK)
		e.set("o|a", "block", 0)
		e.inForce("block", "/o?u=a", http.StatusTooManyRequests)
		e.set("o|a", "nonsense", 0)
		e.inForce("nonsense", "/o?u=a", http.StatusTooManyRequests) // five are used
		e.set("o|a", "free", time.Hour)
		e.inForce("free again", "/o?u=a", http.StatusOK)
		e.set("o|a", "", 0)
		e.inForce("nothing", "/o?u=a", http.StatusTooManyRequests)
		if err := e.client.RPush(ctx, "rl:{o|list}:override", "block").Err(); err != nil {
			t.Fatal(err)
		}
		expectTally(t, "a list", burst(t, 40, 20, e.urls("/o?u=list")), tally{200: 5, 429: 35})

		// A tier without limits knows of blocks; a limit of 0 of who is free.
		e.inForce("unlimited", "/t?u=a", http.StatusOK)
		e.inForce("a limit of 0", "/t?u=a", http.StatusTooManyRequests, "x-plan: none")
		e.set("t|a", "block", 0)
		e.inForce("unlimited, but blocked", "/t?u=a", http.StatusTooManyRequests)
		e.set("t|a", "free", 0)
		e.inForce("a limit of 0, but free", "/t?u=a", http.StatusOK, "x-plan: none")
	})
}

// TestPenaltyIsNoOthersFault: requests in parallel fill a user's limit for a moment
// while another rule rejects them all. The user is not blocked for that.
func TestPenaltyIsNoOthersFault(t *testing.T) {
	t.Parallel()
	s := start(t, `{`+patient+`"rules": [
		{"name": "user", "key": [{"query": "u"}], "limits": [{"algorithm": "gcra", "limit": 5, "window": "1s"}],
			"penalty": {"after": 5, "within": "1m", "for": ["5m"]}},
		{"name": "tenant", "key": [{"query": "t"}],
			"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, `+long+`}]}]}`,
		envoytest.Options{})
	get(t, s.URL+"/?t=full&u=first")
	for range 5 {
		burst(t, 32, 32, []string{s.URL + "/?t=full&u=honest"})
	}
	testenv.Wait(t, patience, func() error { // what they have charged is given back
		if r := get(t, s.URL+"/?t=another&u=honest"); r.status != http.StatusOK {
			return fmt.Errorf("status %d: %s", r.status, r.body)
		}
		return nil
	})
	for i := range 40 { // whoever exceeds it alone is blocked
		get(t, fmt.Sprintf("%s/?t=%d&u=eager", s.URL, i))
	}
	testenv.Wait(t, patience, func() error { // with the next call: the rejection is remembered for 100 ms
		if r := get(t, s.URL+"/?t=last&u=eager"); !strings.Contains(r.body, "abnormal-usage-detected") {
			return fmt.Errorf("after 40 requests: %d %s, want a block", r.status, r.body)
		}
		return nil
	})
}

// TestPenaltyEverywhere: rejections on any Envoy, from memory, too, earn a block on
// all; each next one is longer, and all of it is forgotten in time.
func TestPenaltyEverywhere(t *testing.T) {
	t.Parallel()
	onEachRedis(t, overrideRules, func(t *testing.T, e *twoEnvoys) {
		urls := e.urls("/p?u=h")
		expectTally(t, "the limit", burst(t, 5, 1, urls), tally{200: 5})
		for n, life := range []time.Duration{time.Second, 3 * time.Second, 3 * time.Second} {
			first, longest := 0, 0 // that is told to wait, in seconds
			if n > 0 {             // nothing counts but what comes after the block
				if r := get(t, urls[0]); !strings.Contains(r.body, "#quota-exceeded") {
					t.Fatalf("after block %d: %s", n, r.body)
				}
			}
			began := time.Now()
			for blocked(t, urls, &first) == 0 {
				if time.Since(began) > patience {
					t.Fatalf("block %d is not earned", n+1)
				}
			}
			for blocked(t, urls, &longest) > 0 {
				if time.Since(began) > life+2*patience {
					t.Fatalf("block %d does not end", n+1)
				}
			}
			if took := time.Since(began); took < life {
				t.Errorf("block %d was over after %v, want %v", n+1, took, life)
			}
			// A worker that hears late of a block ends it late, and the others earn the next one meanwhile.
			told := fmt.Sprintf("block %d: the Retry-After", n+1)
			testenv.Within(t, told+" at first", int64(first), 1, int64(life.Seconds()))
			testenv.Within(t, told+" at most", int64(max(first, longest)), int64(life.Seconds()), 3)
		}
		e.set("p|h", "free", 0)
		e.inForce("free", "/p?u=h", http.StatusOK)
		if n := e.client.Exists(ctx, "rl:{p|h}:penalty").Val(); n != 0 {
			t.Error("free has not lifted the penalty")
		}
	})
}

// blocked is how many of the answers of all Envoys tell of a block, and keeps the longest time
// that they tell clients to wait.
func blocked(t *testing.T, urls []string, longest *int) (n int) {
	t.Helper()
	for _, url := range urls {
		if r := get(t, url); strings.Contains(r.body, "#abnormal-usage-detected") {
			wait, _ := strconv.Atoi(r.header.Get("Retry-After"))
			*longest = max(*longest, wait)
			n++
		}
	}
	return n
}
