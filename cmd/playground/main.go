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
	resultSeconds // "t" of the RateLimit field; 0: there is none
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
		r := decided[results*i : results*i+results]
		report(r, &out[0])
		r[resultSeconds] = float64(seconds(&plan.Limits()[0], &out[0], now))
	}
}

// seconds is "t" of the RateLimit field after a decision, as plugin/answer writes it.
func seconds(l *algo.Limit, d *algo.Decision, now int64) int64 {
	micros := d.RetryAfterMicros
	switch {
	case !l.Algorithm.HasWindow():
		return 0
	case d.Allowed:
		micros = l.EffectiveWindowMicros(d, now)
	case micros == algo.Never:
		micros = d.ResetAfterMicros
	}
	if !d.Allowed {
		micros = min(micros, l.RestoreMicros())
	}
	return max(1, (micros+second-1)/second)
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

// senders is how many share a pool.
const senders = 10

// Fields of a pool that senders share, in the order in which the page writes them into pool.
const (
	poolUnits = iota // a second
	poolBurst
	poolGuaranteedUnits // a second to each sender; 0: there is no guarantee
	poolGuaranteedBurst
	poolFields
)

const second = 1e6 // us

var (
	pool [poolFields]float64
	// ceilings are the percents of the pool that each sender's class may use; all 0: there are
	// no classes.
	ceilings [senders]float64
)

// share plays n arrivals, which have the number of their sender in place of a cost, through
// the pool. It reports whether pool, ceilings and senders are valid.
func share(n int32) bool {
	plan, err := algo.NewPlan(sharedLimits())
	if err != nil || n < 0 || n > maxArrivals {
		return false
	}
	plans, ok := plansOfSenders(plan)
	if !ok {
		return false
	}
	var pooled algo.State
	var own [senders]algo.State // what each has used of its guarantee
	costs, out := plan.Each(1), make([]algo.Decision, len(plan.Limits()))
	states := make([]algo.State, len(costs))
	for i := range int(n) {
		sender := int(arrivals[2*i+1])
		if sender < 0 || sender >= senders {
			return false
		}
		states[0] = pooled
		copy(states[1:], own[sender:])
		plans[sender].Decide(states, int64(arrivals[2*i]), costs, out)
		plans[sender].Resolve(out)
		pooled = states[0]
		copy(own[sender:sender+1], states[1:])
		report(decided[results*i:results*i+results], &out[0]) // which allows what the guarantee does, too
	}
	return true
}

// sharedLimits are the pool and, if there is one, the guarantee.
func sharedLimits() []algo.Limit {
	limits := []algo.Limit{{
		Algorithm: algo.GCRA, Units: int64(pool[poolUnits]), WindowMicros: second, Burst: int64(pool[poolBurst]),
	}}
	if ceilings != [senders]float64{} {
		limits[0].Ceiling = algo.MaxCeiling
	}
	if pool[poolGuaranteedUnits] == 0 {
		return limits
	}
	limits[0].Pool = true
	return append(limits, algo.Limit{
		Algorithm: algo.GCRA, Units: int64(pool[poolGuaranteedUnits]), WindowMicros: second,
		Burst: int64(pool[poolGuaranteedBurst]), PerID: "tenant|", Guarantee: true,
	})
}

// plansOfSenders are the plan as each sender's class has it.
func plansOfSenders(plan *algo.Plan) (plans [senders]*algo.Plan, ok bool) {
	for sender := range plans {
		sizes := make([]algo.Size, 0, len(plan.Limits()))
		for i := range plan.Limits() {
			sizes = append(sizes, plan.Limits()[i].Size())
		}
		sizes[0].Ceiling = int64(ceilings[sender])
		if plans[sender], ok = plan.Sized(new(algo.Plan), sizes); !ok {
			return plans, false
		}
	}
	return plans, true
}
