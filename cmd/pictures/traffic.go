package main

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/svg"
)

// All times are in microseconds since the picture begins, which is where a
// window does.
const (
	millisecond = 1_000
	second      = 1_000_000

	limit  = 5
	window = 5 * second
	span   = 23 * second
	step   = 50 * millisecond // between two looks at what remains

	// epoch is when the picture begins on the algorithms' clock.
	epoch = 1_700_000_000 * second
)

// phase is a part of the traffic: so many requests, the first at a time, the
// others each an interval after the one before.
type phase struct {
	note            string
	first, interval int64
	requests        int64
}

var phases = []phase{
	{"10 across a window’s edge", 3_800 * millisecond, 250 * millisecond, 10},
	{"1 a second", 9_050 * millisecond, second, 5},
	{"8 at once", 15_300 * millisecond, 0, 8},
	{"2 a second", 16_550 * millisecond, 500 * millisecond, 7},
}

// arrivals are the times of all requests, in order.
func arrivals() (all []int64) {
	for _, p := range phases {
		for i := range p.requests {
			all = append(all, p.first+i*p.interval)
		}
	}
	return all
}

// outcome is the result of a request.
type outcome struct {
	arrived  int64
	admitted bool
	left     int64 // if admitted: when it arrived, unless a queue held it
}

// history is a limit's answers to the traffic.
type history struct {
	outcomes  []outcome
	remaining []svg.Point // at 0, step, 2 * step, ...
}

// replay puts the traffic to a limit.
func replay(l algo.Limit) (history, error) {
	policy, err := algo.NewPlan([]algo.Limit{l})
	if err != nil {
		return history{}, err
	}
	var h history
	states, out := make([]algo.State, 1), make([]algo.Decision, 1)
	waiting := arrivals()
	for now := int64(0); now <= span; now += step {
		for len(waiting) > 0 && waiting[0] <= now {
			admitted := policy.Decide(states, epoch+waiting[0], []int64{1}, out)
			h.outcomes = append(h.outcomes, outcome{waiting[0], admitted, waiting[0] + out[0].DelayMicros})
			waiting = waiting[1:]
		}
		policy.Decide(states, epoch+now, []int64{0}, out)
		h.remaining = append(h.remaining, svg.Point{At: float64(now), Value: float64(out[0].Remaining)})
	}
	return h, nil
}

// departures are the times at which admitted requests left, in order.
func (h *history) departures() (all []int64) {
	for _, o := range h.outcomes {
		if o.admitted {
			all = append(all, o.left)
		}
	}
	slices.Sort(all)
	return all
}

// most is how many requests left within any one window, wherever it begins.
func (h *history) most() (most int) {
	times := h.departures()
	first := 0
	for last, at := range times {
		for at-times[first] >= window {
			first++
		}
		most = max(most, last-first+1)
	}
	return most
}
