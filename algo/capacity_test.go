package algo

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// capacities are the limits, and bursts, that must be exact at one instant.
const capacities = 1000

// windows are tried in turn; some make intervals that are not whole microseconds.
var windows = []int64{1e3, 1e6, 7e6, 60e6, 3600e6, 86400e6, MaxWindowMicros}

// TestCapacityAtOneInstant takes single units of each algorithm and variant in Go. The Lua charges most of a large
// capacity at once, which saves half a minute: what is added up are whole ticks all the same.
func TestCapacityAtOneInstant(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for i, variant := range []Limit{
		{Algorithm: FixedWindow},
		{Algorithm: FixedWindow, FromFirstRequest: true},
		{Algorithm: SlidingWindowLog},
		{Algorithm: SlidingWindowCounter},
		{Algorithm: SlidingWindowCounter, SubWindows: 10},
		{Algorithm: TokenBucket},
		{Algorithm: LeakyBucket},
		{Algorithm: LeakyBucket, Queue: true, MaxDelayMicros: MaxWindowMicros},
		{Algorithm: GCRA},
		{Algorithm: GCRA, Units: 7, Burst: 600},
	} {
		t.Run(fmt.Sprint(i, variant.Algorithm), func(t *testing.T) {
			t.Parallel()
			l := inBatch(t, client)
			for capacity := int64(1); capacity <= capacities; capacity++ {
				limit := variant
				limit.WindowMicros = windows[capacity%int64(len(windows))]
				if limit.Burst > 0 {
					limit.Burst = min(capacity, limit.Burst)
				} else {
					limit.Units = capacity
				}
				p, states, out := mustPlan(t, limit), make([]State, 1), make([]Decision, 1)
				at, total := epoch+capacity, int64(0)
				for range limit.Capacity() + 3 {
					if decide(p, states, at, 1, out) {
						total++
					}
				}
				testenv.Same(t, fmt.Sprintf("what %+v admits in single units", limit), total, limit.Capacity())
				w := newTwins(t, l, p, fmt.Sprint(i, "-", capacity))
				total = 0
				for _, cost := range []int64{max(limit.Capacity()-2, 0), 1, 1, 1} {
					if _, allowed := w.decide(t, at, cost); allowed {
						total += cost
					}
				}
				testenv.Same(t, fmt.Sprintf("what %+v admits, most of it at once", limit), total, limit.Capacity())
			}
		})
	}
}
