package main

import "github.com/sluiceproxy/sluice/algo"

// lane is one row of the picture.
type lane struct {
	name  string
	notes []string // lines below the name
	limit algo.Limit
}

func lanes() []lane {
	of := func(a algo.Algorithm) algo.Limit {
		return algo.Limit{Algorithm: a, Units: limit, WindowMicros: window}
	}
	first := of(algo.FixedWindow)
	first.FromFirstRequest = true
	queue := of(algo.LeakyBucket)
	queue.Queue, queue.MaxDelayMicros = true, span
	smooth := of(algo.GCRA)
	smooth.Burst = 2
	return []lane{
		{"fixed_window", []string{"counts from 0, 5, 10, 15 s:", "twice the limit at an edge"}, of(algo.FixedWindow)},
		{"fixed_window", []string{"anchor: first_request", "a window begins with a request"}, first},
		{"sliding_window_log", []string{"exact: at most 5", "in any 5 s"}, of(algo.SlidingWindowLog)},
		{
			"sliding_window_counter",
			[]string{"weighs the previous window:", "close to exact, and small"},
			of(algo.SlidingWindowCounter),
		},
		{"token_bucket", []string{"5 at once, then 1 a second;", "as gcra and leaky_bucket do"}, of(algo.TokenBucket)},
		{"leaky_bucket", []string{"overflow: queue", "holds them: 1 leaves a second"}, queue},
		{"gcra", []string{"burst: 2", "2 at once, then 1 a second"}, smooth},
	}
}
