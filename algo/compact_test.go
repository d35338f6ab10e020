package algo

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// t0 is where these tests' clock starts.
const t0 = int64(epoch)

// inWindow is the units of a log in (now-window, now].
func inWindow(log State, now, window int64) (units int64) {
	for i := 0; i < len(log); i += entryLen {
		if at := log[i+entryLast]; at > now-window && at <= now {
			units += log[i+entryUnits]
		}
	}
	return units
}

// At every instant the shortened log holds at least what the full one does, so
// it never admits more; and at most what the full one held a cell ago, so what
// it admits later is less than a cell late.
func TestCompactLogIsConservativeAndLessThanACellLate(t *testing.T) {
	t.Parallel()
	for _, runs := range []int{2, 3, 16, 512} {
		for _, window := range []int64{MinWindowMicros, 1_000_000, 3_600_000_000} {
			rng := rand.New(rand.NewPCG(uint64(runs), uint64(window)))
			limit := &Limit{Algorithm: SlidingWindowLog, WindowMicros: window}
			cell := (window + int64(runs) - 2) / int64(runs-1)
			var full, short State
			now := t0
			for step := range 4 * runs {
				now += rng.Int64N(window >> rng.IntN(10)) // of very different sizes
				full = append(full, now, now, 1+rng.Int64N(3))
				short = append(short, full[len(full)-entryLen:]...)
				short = slices.Clone(since(short, now-window))
				short = limit.Compact(short, runs)
				if n := len(short) / entryLen; n > runs {
					t.Fatalf("%d runs are left, want at most %d", n, runs)
				}
				for range 20 {
					at := now + rng.Int64N(2*window)
					got := inWindow(short, at, window)
					least, most := inWindow(full, at, window), inWindow(full, at, window+cell-1)
					if got < least || got > most {
						t.Fatalf("runs %d, window %d, step %d: %d units, want %d to %d",
							runs, window, step, got, least, most)
					}
				}
			}
		}
	}
}

func TestCompactLeavesTheNewestAlone(t *testing.T) {
	t.Parallel()
	limit := &Limit{Algorithm: SlidingWindowLog, WindowMicros: 1e6}
	var log State
	for i := range int64(20) {
		log = append(log, t0+i*1000, t0+i*1000, 1)
	}
	got := limit.Compact(slices.Clone(log), 16)
	want := append(State{t0, t0 + 4000, 5}, log[5*entryLen:]...)
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	if got := limit.Compact(slices.Clone(log), 20); !slices.Equal(got, log) {
		t.Errorf("a log that is short enough became %v", got)
	}
}

func TestCompactAfterAJumpOfTheClock(t *testing.T) {
	t.Parallel()
	const window = 1_000_000
	var log State
	for i := range int64(20) {
		log = append(log, t0+i*10*window, t0+i*10*window, 1)
	}
	got := (&Limit{Algorithm: SlidingWindowLog, WindowMicros: window}).Compact(log, 4)
	want := State{
		t0, t0 + 160*window, 17,
		t0 + 170*window, t0 + 170*window, 1,
		t0 + 180*window, t0 + 180*window, 1,
		t0 + 190*window, t0 + 190*window, 1,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}
