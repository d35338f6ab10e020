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
	var full []int64 // when the store has admitted, at most a window ago
	var admitted, twinAdmitted int64
	now := t0
	for now < t0+3*second+second/2 {
		now += rng.Int64N(800) // 2,500 a second
		if _, allowed := take(t, s, p, "r|a", now, 1); allowed {
			admitted++
			full = append(full, now)
			for full[0] <= now-second {
				full = full[1:]
			}
			if len(full) > limit {
				t.Fatalf("%d units in the window before %d, want at most %d", len(full), now-t0, limit)
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
