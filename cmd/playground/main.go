// Playground is the algorithms as WebAssembly, for docs/playground: TinyGo
// compiles it, and the page calls what it exports. Everything is numbers in its
// memory, so that it needs nothing of the browser.
package main

import "github.com/sluiceproxy/sluice/algo"

// maxArrivals bounds the requests of one run.
const maxArrivals = 20000

// Fields of a limit, in the order in which the page writes them into limit.
const (
	fieldAlgorithm = iota // the algorithms' order in algo
	fieldUnits
	fieldWindowMicros
	fieldBurst
	fieldFromFirstRequest
	fieldSubWindows
	fieldQueue
	fieldMaxDelayMicros
	fieldSteps
	fieldLastsMicros // how long each request holds its slots
	fields
)

// Results of one arrival, in the order in which the page reads them.
const (
	resultAllowed = iota
	resultRemaining
	resultRetryAfterMicros
	resultDelayMicros
	results
)

var (
	limit    [fields]float64
	arrivals [2 * maxArrivals]float64 // time in us, and cost
	decided  [results * maxArrivals]float64
)

func main() {}

// decide plays n arrivals through the limit. It reports whether the limit is
// valid.
func decide(n int32) bool {
	l := algo.Limit{
		Algorithm:        algo.Algorithm(limit[fieldAlgorithm]),
		Units:            int64(limit[fieldUnits]),
		WindowMicros:     int64(limit[fieldWindowMicros]),
		Burst:            int64(limit[fieldBurst]),
		FromFirstRequest: limit[fieldFromFirstRequest] != 0,
		SubWindows:       int64(limit[fieldSubWindows]),
		Queue:            limit[fieldQueue] != 0,
		MaxDelayMicros:   int64(limit[fieldMaxDelayMicros]),
		Steps:            limit[fieldSteps] != 0,
	}
	if l.Algorithm.Takes(algo.FieldTTL) {
		l.TTLMicros = algo.MaxTTLMicros // longer than the page shows: no slot needs to be renewed
	}
	plan, err := algo.NewPlan([]algo.Limit{l})
	if err != nil || n < 0 || n > maxArrivals {
		return false
	}
	play(plan, int(n))
	return true
}

// play decides n arrivals, and gives the slots of each back when its time is over.
func play(plan *algo.Plan, n int) {
	states, costs, out := make([]algo.State, 1), make([]int64, 1), make([]algo.Decision, 1)
	_, hasSlots := plan.Slots()
	ended := 0 // the arrivals before it hold no slots any more
	for i := range n {
		now := int64(arrivals[2*i])
		for ; hasSlots && ended < i && int64(arrivals[2*ended])+int64(limit[fieldLastsMicros]) <= now; ended++ {
			if decided[results*ended+resultAllowed] == 1 {
				costs[0] = int64(arrivals[2*ended+1])
				plan.RefundAs(int64(ended)+1, states, int64(arrivals[2*ended]), now, costs)
			}
		}
		costs[0] = int64(arrivals[2*i+1])
		plan.DecideAs(int64(i)+1, states, now, costs, out)
		report(decided[results*i:results*i+results], &out[0])
	}
}

// report writes a decision for the page.
func report(r []float64, d *algo.Decision) {
	r[resultAllowed] = 0
	if d.Allowed {
		r[resultAllowed] = 1
	}
	r[resultRemaining] = float64(d.Remaining)
	r[resultRetryAfterMicros] = float64(d.RetryAfterMicros)
	r[resultDelayMicros] = float64(d.DelayMicros)
}
