package algo_test

import (
	"fmt"
	"time"

	"github.com/sluiceproxy/sluice/algo"
)

// Two limits decide together: both are charged, or neither is.
func Example() {
	plan, err := algo.NewPlan([]algo.Limit{
		{Algorithm: algo.GCRA, Units: 10, WindowMicros: 1e6, Burst: 2},
		{Algorithm: algo.FixedWindow, Units: 1000, WindowMicros: 86400e6},
	})
	if err != nil {
		panic(err)
	}
	states := make([]algo.State, 2) // what a store remembers of one identity
	decisions := make([]algo.Decision, 2)
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC).UnixMicro()
	for range 3 {
		allowed := plan.Decide(states, now, plan.Each(1), decisions)
		fmt.Printf("allowed %v: %d and %d remain, retry after %d us\n",
			allowed, decisions[0].Remaining, decisions[1].Remaining, decisions[0].RetryAfterMicros)
	}
	// Output:
	// allowed true: 1 and 999 remain, retry after 0 us
	// allowed true: 0 and 998 remain, retry after 0 us
	// allowed false: 0 and 998 remain, retry after 100000 us
}

// In Redis the same plan is a script, whose keys are named by KeySuffix.
func ExamplePlan_Script() {
	plan, err := algo.NewPlan([]algo.Limit{{Algorithm: algo.GCRA, Units: 10, WindowMicros: 1e6, Burst: 20}})
	if err != nil {
		panic(err)
	}
	for i, limit := range plan.Limits() {
		fmt.Println("EVALSHA <SHA1> 1 rl:{per-user|alice}"+limit.KeySuffix(), "<cost>", plan.Args(i))
	}
	// What Redis answers: its time, then what the limit says.
	decisions := make([]algo.Decision, 1)
	at, allowed, err := plan.ParseReply([]int64{1893499200000000, 19, 100000, 0, 0}, decisions)
	fmt.Println(at, allowed, err, decisions[0].Remaining)
	// Output:
	// EVALSHA <SHA1> 1 rl:{per-user|alice}:gcra:1s <cost> [100000 2000000]
	// 1893499200000000 true <nil> 19
}

// A limit may come with the request, such as by a claim of its token.
func ExamplePlan_Sized() {
	plan, err := algo.NewPlan([]algo.Limit{{Algorithm: algo.TokenBucket, Units: 100, WindowMicros: 60e6}})
	if err != nil {
		panic(err)
	}
	states, decisions := make([]algo.State, 1), make([]algo.Decision, 1)
	now := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC).UnixMicro()
	plan.Decide(states, now, plan.Each(60), decisions)
	gold, _ := plan.Sized(new(algo.Plan), []algo.Size{{Units: 1000}})
	gold.Decide(states, now, gold.Each(0), decisions)
	fmt.Println(decisions[0].Remaining, "remain of 1000")
	// Output:
	// 940 remain of 1000
}
