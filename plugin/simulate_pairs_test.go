package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// pairRun is one run of traffic: after each step how many requests of each user were admitted
// so far.
type pairRun [][3]int

// pairConfig is a configuration of one rule of one limit.
func pairConfig(limit, cache string) string {
	return `{"redis": {"cluster": "redis"}, ` + cache + `"rules": [{"name": "a", ` + user +
		`, "limits": [` + limit + `]}]}`
}

// runPair runs the traffic of a seed, without faults: two workers, answers that come after a
// while, the same for all configurations.
func runPair(t *testing.T, seed uint64, text string, withoutTime bool) (run pairRun) {
	v := &simulation{
		t: t, seed: seed, random: rand.New(rand.NewPCG(seed, 2)), guests: map[*worker]*nativeGuest{}, users: 3,
		charged: map[string]int64{}, admitted: map[string]int64{}, exits: map[*worker]int{}, outcomes: map[string]int64{},
		passed: map[string]int{},
		config: &simConfig{redis: true, timeout: 50 * time.Millisecond}, burst: 1,
	}
	v.redis = twinredis.New()
	v.redis.WithoutTime = withoutTime
	v.start(2)
	v.install(text)
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
		t.Errorf("seed %d: %s: %s", seed, text, v.failed)
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
		limit := anyLimit(random, 1+random.Int64N(60), []string{"48ms", "96ms", "480ms", "6s"}[random.IntN(4)])
		withoutTime := seed%4 == 0
		const off = `"deny_cache": {"size": 0}, `
		plain := runPair(t, seed, pairConfig(limit, off), withoutTime)
		cached := runPair(t, seed, pairConfig(limit, `"deny_cache": {"size": 100}, `), withoutTime)
		if !strings.Contains(limit, "first_request") {
			comparePair(t, seed, "a deny cache, "+limit, plain, cached)
		}
		for _, lease := range []string{fmt.Sprintf(`"units": %d, "ttl": "100ms"`, 1+random.IntN(9)), `"ttl": "20ms"`} {
			leased := limit[:len(limit)-1] + `, "lease": {` + lease + `}}`
			if _, err := config.Parse([]byte(pairConfig(leased, off))); err == nil { // else it has none
				comparePair(t, seed, leased, plain, runPair(t, seed, pairConfig(leased, off), withoutTime))
			}
		}
	}
}

// comparePair fails if a run has admitted more than the plain one, at any step.
func comparePair(t *testing.T, seed uint64, what string, plain, other pairRun) {
	t.Helper()
	for step := range plain {
		for user, admitted := range other[step] {
			if admitted > plain[step][user] {
				t.Errorf("seed %d: %s: at step %d user %d was admitted %d times, without %d times",
					seed, what, step, user, admitted, plain[step][user])
				return
			}
		}
	}
}
