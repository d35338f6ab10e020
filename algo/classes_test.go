package algo

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestRoomOfClasses: so many percent of the capacity, rounded down, but at least 1.
func TestRoomOfClasses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		units, burst, ceiling, want int64
	}{
		{units: 100, ceiling: 0, want: 100},
		{units: 100, ceiling: 100, want: 100},
		{units: 100, ceiling: 80, want: 80},
		{units: 10, burst: 50, ceiling: 50, want: 25},
		{units: 9, ceiling: 50, want: 4},
		{units: 1, ceiling: 1, want: 1},
		{units: 99, ceiling: 1, want: 1},
		{units: 0, ceiling: 50, want: 0},
		{units: MaxUnits, ceiling: 99, want: MaxUnits / 100 * 99},
	} {
		l := Limit{Algorithm: GCRA, Units: c.units, WindowMicros: 1e6, Burst: c.burst, Ceiling: c.ceiling}
		testenv.Same(t, fmt.Sprintf("the room of %+v", c), l.Room(), c.want)
	}
}

// TestClassesByDefinition holds each algorithm to what a class is: it is admitted while what is
// used and its cost together stay within its part, and it charges as any class does.
func TestClassesByDefinition(t *testing.T) {
	t.Parallel()
	for _, a := range Algorithms() {
		r := newRandom(900 + uint64(a))
		for range 300 {
			l := r.limit(a)
			l.Ceiling, l.Units = MaxCeiling, max(l.Units, 2)
			coarse := l.Units > maxProduct/max(l.WindowMicros, 1) // a counter's steps are longer than 1 us then
			if coarse || l.Queue {
				continue // a queue rejects for its delay, too
			}
			whole := mustPlan(t, l)
			states, now := []State{nil}, int64(epoch)
			for range 40 {
				size := l.Size()
				size.Ceiling = r.span(1, MaxCeiling)
				class, ok := whole.Sized(new(Plan), []Size{size})
				if !ok {
					t.Fatalf("%+v of %+v", size, l)
				}
				now += r.Int64N(max(l.WindowMicros, 1e6) / 4)
				whole.Rebase(states, now)
				report, decided := make([]Decision, 1), make([]Decision, 1)
				whole.Check(states, now, []int64{0}, report)
				cost := r.cost(l.Capacity())
				room := class.Limits()[0].Room()
				left := max(report[0].Remaining-(l.Capacity()-room), 0)
				same := []State{slices.Clone(states[0])}
				allowed := class.DecideAs(7, states, now, []int64{cost}, decided)
				text := fmt.Sprintf("%+v, ceiling %d, cost %d, of %d left", l, size.Ceiling, cost, left)
				testenv.Same(t, text+": admitted", allowed, cost <= left)
				if allowed && cost > 0 {
					left -= cost
					whole.DecideAs(7, same, now, []int64{cost}, report)
				}
				testenv.Same(t, text+": remaining", decided[0].Remaining, left)
				testenv.Same(t, text+": never", decided[0].RetryAfterMicros == Never, cost > room)
				testenv.SameList(t, text+": state", states[0], same[0])
				if wait := decided[0].RetryAfterMicros; wait > 0 && class.Limits()[0].Algorithm.HasWindow() {
					then, out := []State{slices.Clone(states[0])}, make([]Decision, 1)
					testenv.Same(t, text+": admitted after the wait", class.Check(then, now+wait, []int64{cost}, out), true)
					testenv.Same(t, text+": admitted 1 us before", class.Check(then, now+wait-1, []int64{cost}, out), false)
				}
				if t.Failed() {
					t.FailNow()
				}
			}
		}
	}
}
