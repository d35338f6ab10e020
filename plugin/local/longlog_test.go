package local

import (
	"math/rand/v2"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
)

// A log of more requests than a record has runs never admits more than its
// limit in any window, and under load at most 0.2 % less than the algorithm.
func TestALongLogIsExactWithinTheContract(t *testing.T) {
	t.Parallel()
	const limit = 2000
	l := algo.Limit{Algorithm: algo.SlidingWindowLog, Units: limit, WindowMicros: second}
	p := policy(t, l)
	s := newStore()
	twin, out := make([]algo.State, 1), make([]algo.Decision, 1)
	rng := rand.New(rand.NewPCG(5, 6))
	var full []int64 // pairs: what the store has admitted, at most a window of it
	var admitted, twinAdmitted int64
	now := t0
	for now < t0+3*second+second/2 {
		now += rng.Int64N(800) // 2,500 a second
		if _, allowed := take(t, s, p, "r|a", now, 1); allowed {
			admitted++
			full = append(dropOld(full, now, second), now, 1)
			if n := inWindow(full, now, second); n > limit {
				t.Fatalf("%d units in the window before %d, want at most %d", n, now-t0, limit)
			}
		}
		if p.Decide(twin, now, []int64{1}, out) {
			twinAdmitted++
		}
	}
	if admitted*1000 < twinAdmitted*998 || admitted > twinAdmitted {
		t.Errorf("%d admitted where the algorithm admits %d", admitted, twinAdmitted)
	}
	if len(twin[0]) <= 3*maxRuns {
		t.Errorf("%d numbers in the algorithm's log: the test shows nothing", len(twin[0]))
	}
}

// inWindow is the units of requests, pairs of a time and units, in (now-window, now].
func inWindow(requests []int64, now, window int64) (units int64) {
	for i := 0; i < len(requests); i += 2 {
		if at := requests[i]; at > now-window && at <= now {
			units += requests[i+1]
		}
	}
	return units
}

// dropOld removes the requests that have left the window.
func dropOld(requests []int64, now, window int64) []int64 {
	for len(requests) > 0 && requests[0] <= now-window {
		requests = requests[2:]
	}
	return requests
}
