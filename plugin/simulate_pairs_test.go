package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// pairRun is one run of traffic: after each step how many requests of each user were admitted
// so far.
type pairRun [][3]int

// runPair runs the traffic of a seed, without faults: two workers, answers that come after a
// while, the same for all configurations. These have one rule of one limit.
func runPair(t *testing.T, seed uint64, limit string, denied int) (run pairRun) {
	rule := &simRule{Name: "user", Text: user + `, "limits": [{` + limit + `}]`}
	v := newSimulationOf(t, &simConfig{
		Seed: seed, Workers: 2, WithoutTime: seed%4 == 0, Redis: true, Timeout: 50 * time.Millisecond,
		Modes: []string{"allow"}, Pending: 4096, Failures: 5, Denied: denied, Rules: []*simRule{rule},
	})
	v.random, v.users = rand.New(rand.NewPCG(seed, 2)), 3
	for range 400 {
		for range v.random.IntN(6) {
			v.anyArrives()
		}
		v.advance(time.Duration(v.random.IntN(3000)) * time.Microsecond)
		v.serveAll()
		var admitted [3]int
		for user := range admitted {
			admitted[user] = v.passed[fmt.Sprint("u", user)]
		}
		run = append(run, admitted)
		for _, r := range slices.Clone(v.live) {
			if !r.exited {
				v.fail("request %d waits though Redis has answered", r.id)
			}
			v.end(r)
		}
		v.advance(time.Duration(v.random.IntN(4)*v.random.IntN(8000)) * time.Microsecond)
	}
	if v.failed != "" {
		t.Errorf("seed %d: %s: %s", seed, limit, v.failed)
	}
	return run
}

// TestPairs: of one rule of one limit, with costs of 1, a deny cache or a lease never admits
// more than there would be without, at any moment, whatever clock the scripts have. A window that begins
// with a request begins later where the memory rejects the first one after the last window's end: it
// then holds other requests, so that of these limits only the lease is compared.
func TestPairs(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40 / testenv.Stride()) {
		random := rand.New(rand.NewPCG(seed, 3))
		limit := fmt.Sprintf(`%s, "limit": %d, "window": %q`, pick(random, algorithms...), 1+random.IntN(60),
			pick(random, "48ms", "96ms", "480ms", "6s"))
		plain, others := runPair(t, seed, limit, 0), map[string]pairRun{}
		if !strings.Contains(limit, "first_request") {
			others["a deny cache, "+limit] = runPair(t, seed, limit, 100)
		}
		for _, lease := range []string{fmt.Sprintf(`"units": %d, "ttl": "100ms"`, 1+random.IntN(9)), `"ttl": "20ms"`} {
			leased := limit + `, "lease": {` + lease + `}`
			text := `{"redis": {"cluster": "redis"}, "rules": [{"name": "a", "limits": [{` + leased + `}]}]}`
			if _, err := config.Parse([]byte(text)); err == nil { // else it has none
				others[leased] = runPair(t, seed, leased, 0)
			}
		}
		for what, other := range others {
			for step := range plain {
				for user, admitted := range other[step] {
					if admitted > plain[step][user] {
						t.Fatalf("seed %d: %s: at step %d user %d was admitted %d times, without %d times",
							seed, what, step, user, admitted, plain[step][user])
					}
				}
			}
		}
	}
}
