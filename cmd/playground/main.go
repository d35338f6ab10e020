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
	plan, err := algo.NewPlan([]algo.Limit{{
		Algorithm:        algo.Algorithm(limit[fieldAlgorithm]),
		Units:            int64(limit[fieldUnits]),
		WindowMicros:     int64(limit[fieldWindowMicros]),
		Burst:            int64(limit[fieldBurst]),
		FromFirstRequest: limit[fieldFromFirstRequest] != 0,
		SubWindows:       int64(limit[fieldSubWindows]),
		Queue:            limit[fieldQueue] != 0,
		MaxDelayMicros:   int64(limit[fieldMaxDelayMicros]),
	}})
	if err != nil || n < 0 || n > maxArrivals {
		return false
	}
	states, costs, out := make([]algo.State, 1), make([]int64, 1), make([]algo.Decision, 1)
	for i := range int(n) {
		costs[0] = int64(arrivals[2*i+1])
		plan.Decide(states, int64(arrivals[2*i]), costs, out)
		r := decided[results*i : results*i+results]
		r[resultAllowed] = 0
		if out[0].Allowed {
			r[resultAllowed] = 1
		}
		r[resultRemaining] = float64(out[0].Remaining)
		r[resultRetryAfterMicros] = float64(out[0].RetryAfterMicros)
		r[resultDelayMicros] = float64(out[0].DelayMicros)
	}
	return true
}
