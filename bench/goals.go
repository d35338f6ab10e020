package main

import "fmt"

// goal is the project's goal for a figure.
type goal struct {
	Title   string  `json:"title"`
	Figure  spread  `json:"figure"`
	AtLeast bool    `json:"at_least"` // else at most
	Bound   float64 `json:"bound"`
	Met     bool    `json:"met"` // by the median

	decimals int
}

func newGoal(title string, values []float64, atLeast bool, bound float64, decimals int) goal {
	g := goal{Title: title, Figure: spreadOf(values), AtLeast: atLeast, Bound: bound, decimals: decimals}
	g.Met = g.Figure.Median <= bound
	if atLeast {
		g.Met = g.Figure.Median >= bound
	}
	return g
}

func (g goal) bound() string {
	if g.AtLeast {
		return fmt.Sprintf("at least %g", g.Bound)
	}
	return fmt.Sprintf("at most %g", g.Bound)
}

// verdict is decided by the median; where the bound lies within the rounds'
// spread, the noise could have decided otherwise.
func (g goal) verdict() string {
	word := "not met"
	if g.Met {
		word = "met"
	}
	if g.Figure.Min <= g.Bound && g.Bound <= g.Figure.Max && g.Figure.Min < g.Figure.Max {
		word += ", within the noise"
	}
	return word
}

// The loads that goals are about.
const (
	mainLoad    = "16"
	crowdLoad   = "64"
	latencyLoad = "open"
)

// goals holds the figures against what the project aims at: docs/benchmarks.md.
func (r *report) goals() []goal {
	if len(r.Results[pair]) == 0 {
		return r.besideGoals()
	}
	all, pair := r.Results, r.Results.fasterPair(mainLoad)
	throughput := func(setup, to, load string) []float64 { return all.ratio(setup, to, load, requestsPerSecond) }
	latency := func(q quantity) []float64 { return all.ratio(sluice, pair, latencyLoad, q) }
	return []goal{
		newGoal("CPU per check, Sluice / ratelimit and its service",
			quotients(all.checkCost(sluice, mainLoad), all.checkCost(pair, mainLoad)), false, 0.2, 2),
		newGoal("Requests for each CPU second, Sluice / ratelimit and its service",
			all.ratio(sluice, pair, mainLoad, requestsPerCPUSecond), true, 2.5, 2),
		newGoal("Requests/s, Sluice / ratelimit and its service", throughput(sluice, pair, mainLoad), true, 2.0, 2),
		newGoal("Requests/s at 64 connections, Sluice / ratelimit and its service",
			throughput(sluice, all.fasterPair(crowdLoad), crowdLoad), true, 1.6, 2),
		newGoal("p50, Sluice / ratelimit and its service", latency(p50), false, 1, 2),
		newGoal("p99.9, Sluice / ratelimit and its service", latency(p999), false, 1, 2),
		newGoal("Requests/s, Sluice leased / no limiter", throughput(leased, unlimited, mainLoad), true, 0.8, 2),
		newGoal("Redis commands per request, Sluice leased", all.of(leased, mainLoad, redisCommands), false, 0.05, 3),
		newGoal("Redis commands per request, Sluice denied", all.of(sluiceDenied, mainLoad, redisCommands), false, 0.001, 4),
		newGoal("Requests/s, Sluice / built without metrics", throughput(sluice, uncounted, mainLoad), true, 0.97, 2),
		newGoal("CPU us of settling every request",
			differences(all.checkCost(settled, mainLoad), all.checkCost(sluice, mainLoad)), false, 4, 1),
		newGoal("Writes to Redis for settling, a request",
			differences(all.of(settled, mainLoad, redisReads), all.of(sluice, mainLoad, redisReads)), false, 0.1, 3),
		newGoal("CPU of each further limit in a rule / of the first", all.furtherLimit(), false, 0.2, 2),
	}
}

// furtherLimit is the cost of the second and of the third limit of a rule, in
// parts of what the first costs.
func (r results) furtherLimit() []float64 {
	one, three := r.checkCost(sluice, mainLoad), r.checkCost(sluiceThree, mainLoad)
	parts := make([]float64, len(one))
	for i := range parts {
		parts[i] = (three[i] - one[i]) / 2 / one[i]
	}
	return parts
}

func differences(values, from []float64) []float64 {
	all := make([]float64, min(len(values), len(from)))
	for i := range all {
		all[i] = values[i] - from[i]
	}
	return all
}
