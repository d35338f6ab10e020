package main

import (
	"math"
	"slices"
)

// goal is the project's goal for a figure.
type goal struct {
	Title   string  `json:"title"`
	Figure  spread  `json:"figure"`
	AtLeast bool    `json:"at_least"` // else at most
	Bound   float64 `json:"bound"`
	Met     bool    `json:"met"` // by the median

	decimals int
}

func newGoal(title string, figure spread, atLeast bool, bound float64, decimals int) goal {
	met := figure.Median <= bound
	if atLeast {
		met = figure.Median >= bound
	}
	return goal{title, figure, atLeast, bound, met, decimals}
}

// The loads that goals are about.
const (
	mainLoad    = "16"
	crowdLoad   = "64"
	latencyLoad = "open"
)

// goals holds the figures against what the project aims at.
func (r *report) goals() []goal {
	all, faster := r.Results, r.Results.fasterPair(mainLoad)
	throughput := func(setup, to, load string) spread { return all.ratio(setup, to, load, requestsPerSecond) }
	latency := func(q quantity) spread { return all.ratio(sluice, faster, latencyLoad, q) }
	commands := func(setup string) spread { return all.spread(setup, mainLoad, redisCommands) }
	return slices.DeleteFunc([]goal{
		newGoal("CPU per check, Sluice / ratelimit and its service",
			all.checks(over, sluice, faster, mainLoad), false, 0.15, 2),
		newGoal("CPU per check of two limits, Sluice / ratelimit and its service",
			all.checks(over, sluiceTwo, pairTwo, mainLoad), false, 0.15, 2),
		newGoal("Requests for each CPU second, Sluice / ratelimit and its service",
			all.ratio(sluice, faster, mainLoad, requestsPerCPUSecond), true, 3, 2),
		newGoal("Requests/s, Sluice / ratelimit and its service", throughput(sluice, faster, mainLoad), true, 2.2, 2),
		newGoal("Requests/s at 64 connections, Sluice / ratelimit and its service",
			throughput(sluice, all.fasterPair(crowdLoad), crowdLoad), true, 2, 2),
		newGoal("p50, Sluice / ratelimit and its service", latency(p50), false, 1, 2),
		newGoal("p99.9, Sluice / ratelimit and its service", latency(p999), false, 1, 2),
		newGoal("Requests/s, Sluice leased / no limiter", throughput(leased, unlimited, mainLoad), true, 0.8, 2),
		newGoal("Requests/s, Sluice leased, a bucket of a second / no limiter",
			throughput(leasedBucket, unlimited, mainLoad), true, 0.8, 2),
		newGoal("Redis commands per request, Sluice leased", commands(leased), false, 0.05, 3),
		newGoal("Redis commands per request, Sluice leased, a bucket of a second", commands(leasedBucket), false, 0.05, 3),
		newGoal("Redis commands per request, Sluice denied", commands(sluiceDenied), false, 0.001, 4),
		newGoal("Requests/s, Sluice denied / a Wasm filter that only rejects",
			throughput(sluiceDenied, emptyDenied, mainLoad), true, 0.8, 2),
		newGoal("CPU µs of settling every request", all.checks(minus, settled, sluice, mainLoad), false, 4, 1),
		newGoal("Writes to Redis for settling, a request", compare(difference, all.of(settled, mainLoad, redisReads),
			all.of(sluice, mainLoad, redisReads)), false, 0.1, 3),
		newGoal("CPU of each further limit in a rule / of the first", all.checks(furtherLimit, sluiceThree, sluice,
			mainLoad), false, 0.2, 2),
	}, func(g goal) bool { return math.IsNaN(g.Figure.Median) }) // of what was not measured
}

func over(a, b float64) float64 { return a / b }

func minus(a, b float64) float64 { return a - b }

// furtherLimit is the cost of the second and of the third limit of a rule, in parts of what the first
// costs.
func furtherLimit(three, one float64) float64 { return (three - one) / 2 / one }
