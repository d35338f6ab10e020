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

// TestPairs: of one rule of one limit, with costs of 1, a deny cache or a lease never admits
// more than there would be without, at any moment, whatever clock the scripts have. A window that begins
// with a request begins later where the memory rejects the first one after the last window's end: it
// then holds other requests, so that of these limits only the lease is compared.
//
// All have the same traffic of two workers, without faults, and answers that come after a while.
func TestPairs(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40 / testenv.Stride()) {
		random := rand.New(rand.NewPCG(seed, 3))
		limit := fmt.Sprintf(`%s, "limit": %d, "window": %q`, pick(random, algorithms...), 1+random.IntN(60),
			pick(random, "48ms", "96ms", "480ms", "6s"))
		type variant struct {
			limit  string
			denied int
		}
		variants := []variant{{limit, 0}} // the first is without
		if !strings.Contains(limit, "first_request") {
			variants = append(variants, variant{limit, 100})
		}
		for _, lease := range []string{fmt.Sprintf(`"units": %d, "ttl": "100ms"`, 1+random.IntN(9)), `"ttl": "20ms"`} {
			leased := limit + `, "lease": {` + lease + `}`
			text := `{"redis": {"cluster": "redis"}, "rules": [{"name": "a", "limits": [{` + leased + `}]}]}`
			if _, err := config.Parse([]byte(text)); err == nil { // else it has none
				variants = append(variants, variant{leased, 0})
			}
		}
		var without [400][3]int // how many requests of each user were admitted by each step
		for n, of := range variants {
			v := newSimulationOf(t, &simConfig{
				Seed: seed, Workers: 2, WithoutTime: seed%4 == 0, Redis: true, Timeout: 50 * time.Millisecond,
				Modes: []string{"allow"}, Pending: 4096, Failures: 5, Denied: of.denied,
				Rules: []*simRule{{Name: "user", Text: user + `, "limits": [{` + of.limit + `}]`}},
			})
			v.random, v.users = rand.New(rand.NewPCG(seed, 2)), 3
			for step := range without {
				for range v.random.IntN(6) {
					v.anyArrives()
				}
				v.advance(time.Duration(v.random.IntN(3000)) * time.Microsecond)
				v.serveAll()
				for user := range without[step] {
					admitted := v.passed[fmt.Sprint("u", user)]
					if n == 0 {
						without[step][user] = admitted
					} else if admitted > without[step][user] {
						t.Fatalf("seed %d: %s, a deny cache of %d: at step %d user %d was admitted %d times, without %d times",
							seed, of.limit, of.denied, step, user, admitted, without[step][user])
					}
				}
				for _, r := range slices.Clone(v.live) {
					if !r.exited {
						v.fail("request %d waits though Redis has answered", r.id)
					}
					v.end(r)
				}
				v.advance(time.Duration(v.random.IntN(4)*v.random.IntN(8000)) * time.Microsecond)
			}
			if v.failed != "" {
				t.Errorf("seed %d: %s: %s", seed, of.limit, v.failed)
			}
		}
	}
}
