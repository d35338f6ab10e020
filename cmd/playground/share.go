package main

import "github.com/sluiceproxy/sluice/algo"

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
