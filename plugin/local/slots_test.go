package local

import (
	"maps"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestSlotsOfTwoWorkers walks through what the workers of one Envoy do, under one limit of requests and one of
// five slots. With each call a worker says anew what it holds of them.
func TestSlotsOfTwoWorkers(t *testing.T) {
	t.Parallel()
	p := policy(t, algo.Limit{Algorithm: algo.FixedWindow, Units: 1000, WindowMicros: hour},
		algo.Limit{Algorithm: algo.Concurrency, Units: 5, TTLMicros: 30e6})
	const a, b, later, end = 0, 1, t0 + 29e6, t0 + 31e6
	type step struct {
		what    string
		w       int
		at      int64
		take    int64 // 0: it holds so many from now on
		hold    int64
		allowed bool
		evicts  bool // first, the pages are lost
	}
	for _, steps := range [][]step{{
		{what: "3 of 5", w: a, at: t0, take: 3, allowed: true},
		{what: "3 of 2", w: b, at: t0, take: 3},
		{what: "2 of 2", w: b, at: t0, take: 2, allowed: true},
		{what: "1 of 0", w: a, at: t0, take: 1},
		{w: a, at: t0, hold: 2},
		{what: "1 of 1", w: b, at: t0, take: 1, allowed: true},
		{w: b, at: t0, hold: 0},
		{w: b, at: t0, hold: 0}, // twice gives no credit
		{what: "4 of 3", w: b, at: t0, take: 4},
		{what: "3 of 3", w: b, at: t0, take: 3, allowed: true},
		{w: a, at: later, hold: 2}, // both live on; b has a request that is not renewed
		{what: "a renewed, b died: 4 of 3", w: a, at: end, take: 4},
		{what: "3 of 3 that were b's", w: a, at: end, take: 3, allowed: true},
		{what: "1 of 0, again", w: a, at: end, take: 1},
		{w: b, at: end, hold: 3}, // b was not dead, and says so, above the limit
		{w: a, at: end, hold: 1},
		{what: "2 of 1", w: a, at: end, take: 2},
		{what: "1 of 1, then", w: a, at: end, take: 1, allowed: true},
	}, {
		{what: "4 of 5", w: a, at: t0, take: 4, allowed: true},
		{w: a, at: t0, hold: 4, evicts: true},
		{what: "6 of 5, by two", w: b, at: t0, take: 2},
		{what: "6 of 5", w: a, at: t0, take: 2},
		{what: "5 of 5", w: a, at: t0, take: 1, allowed: true},
		{w: a, at: t0, hold: 0},
		{what: "5 of 5, when all is given back", w: a, at: t0, take: 5, allowed: true},
	}} {
		m := newMemory()
		stores, held := [2]*Store{sized(m, Options{}), sized(m, Options{})}, [2]int64{}
		for _, s := range steps {
			if s.evicts {
				maps.DeleteFunc(m.data, func(key string, _ versioned) bool { return key != seedKey })
			}
			store := stores[s.w]
			if s.take == 0 {
				held[s.w] = s.hold
				testenv.OK(t, store.Occupy(p, []byte("r|a"), s.at, s.hold))
				continue
			}
			store.Occupying(held[s.w])
			r, err := store.Decide(p, []byte("r|a"), s.at, []int64{1, s.take}, make([]algo.Decision, 2), Charge)
			testenv.OK(t, err)
			testenv.Same(t, s.what+": that it is admitted", r.Allowed, s.allowed)
			if r.Allowed {
				held[s.w] += s.take
			}
		}
	}
}
