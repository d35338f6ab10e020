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

// plainLimits are one limit of each algorithm and variant that admits capacity
// at one instant.
func plainLimits(capacity, window int64) []Limit {
	return []Limit{
		{Algorithm: FixedWindow, Units: capacity, WindowMicros: window},
		{Algorithm: FixedWindow, Units: capacity, WindowMicros: window, FromFirstRequest: true},
		{Algorithm: SlidingWindowLog, Units: capacity, WindowMicros: window},
		{Algorithm: SlidingWindowCounter, Units: capacity, WindowMicros: window},
		{Algorithm: SlidingWindowCounter, Units: capacity, WindowMicros: window, SubWindows: 10},
		{Algorithm: TokenBucket, Units: capacity, WindowMicros: window},
		{Algorithm: LeakyBucket, Units: capacity, WindowMicros: window},
		{Algorithm: LeakyBucket, Units: capacity, WindowMicros: window, Queue: true, MaxDelayMicros: MaxWindowMicros},
		{Algorithm: GCRA, Units: capacity, WindowMicros: window},
		{Algorithm: GCRA, Units: 7, WindowMicros: window, Burst: min(capacity, 600)},
	}
}

func TestCapacityAtOneInstantInGo(t *testing.T) {
	t.Parallel()
	for capacity := int64(1); capacity <= capacities; capacity++ {
		window := windows[capacity%int64(len(windows))]
		for _, l := range plainLimits(capacity, window) {
			p, states, out := mustPlan(t, l), make([]State, 1), make([]Decision, 1)
			total := int64(0)
			for range l.Capacity() + 3 {
				if decide(p, states, epoch+capacity, 1, out) {
					total++
				}
			}
			if total != l.Capacity() {
				t.Errorf("%+v admitted %d at one instant", l, total)
			}
		}
	}
}

// TestCapacityAtOneInstantInLua charges most of a large capacity at once, which
// saves half a minute: what is added up are whole ticks all the same.
func TestCapacityAtOneInstantInLua(t *testing.T) {
	t.Parallel()
	const singles = 2
	client := startRedis(t)
	for variant := range plainLimits(1, 1e6) {
		l := inBatch(t, client)
		for capacity := int64(1); capacity <= capacities; capacity++ {
			limit := plainLimits(capacity, windows[capacity%int64(len(windows))])[variant]
			w := newTwins(t, l, mustPlan(t, limit), fmt.Sprint(variant, "-", capacity))
			at, most, total := epoch+capacity, max(limit.Capacity()-singles, 0), int64(0)
			for n := range int64(singles + 2) {
				cost := int64(1)
				if n == 0 {
					cost = most
				}
				if _, allowed := w.decide(t, at, cost); allowed {
					total += cost
				}
			}
			testenv.Same(t, fmt.Sprintf("what %+v admitted at one instant", limit), total, limit.Capacity())
		}
		l.flush(t)
	}
}
