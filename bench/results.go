package main

import (
	"fmt"
	"slices"
)

// results are the samples by setup and load, in the order of the rounds.
type results map[string]map[string][]*sample

func (r results) add(setup, load string, s *sample) {
	if r[setup] == nil {
		r[setup] = map[string][]*sample{}
	}
	r[setup][load] = append(r[setup][load], s)
}

// spread is the range of several rounds.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// spreadOf is 0 of no value: of what was not measured.
func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	median := sorted[middle]
	if len(sorted)%2 == 0 {
		median = (sorted[middle-1] + sorted[middle]) / 2
	}
	return spread{Median: median, Min: sorted[0], Max: sorted[len(sorted)-1]}
}

// text writes a spread with some decimals: "2.45 (2.31-2.60)".
func (s spread) text(decimals int) string {
	return fmt.Sprintf("%.*f (%.*f-%.*f)", decimals, s.Median, decimals, s.Min, decimals, s.Max)
}

// quantity is something that a sample tells.
type quantity func(*sample) float64

func requestsPerSecond(s *sample) float64 { return s.RequestsPerSecond }
func envoyCPU(s *sample) float64          { return s.CPUMicros.Envoy }
func serviceCPU(s *sample) float64        { return s.CPUMicros.Service }
func redisCPU(s *sample) float64          { return s.CPUMicros.Redis }
func redisCommands(s *sample) float64     { return s.RedisCommands }
func redisReads(s *sample) float64        { return s.RedisReads }
func p50(s *sample) float64               { return s.P50Micros }
func p99(s *sample) float64               { return s.P99Micros }
func p999(s *sample) float64              { return s.P999Micros }

// requestsPerCPUSecond is how many requests a second of CPU time serves, of Envoy, the
// service and Redis together.
func requestsPerCPUSecond(s *sample) float64 {
	return 1e6 / (s.CPUMicros.Envoy + s.CPUMicros.Service + s.CPUMicros.Redis)
}

// of is a quantity in every round.
func (r results) of(setup, load string, q quantity) []float64 {
	values := make([]float64, 0, len(r[setup][load]))
	for _, s := range r[setup][load] {
		values = append(values, q(s))
	}
	return values
}

func (r results) spread(setup, load string, q quantity) spread { return spreadOf(r.of(setup, load, q)) }

// ratio compares two setups round by round.
func (r results) ratio(setup, to, load string, q quantity) []float64 {
	return quotients(r.of(setup, load, q), r.of(to, load, q))
}

func quotients(values, by []float64) []float64 {
	all := make([]float64, min(len(values), len(by)))
	for i := range all {
		all[i] = values[i] / by[i]
	}
	return all
}

// checkCost is the CPU time of limiting, us a request, in every round:
// what Envoy uses beyond Envoy without a limiter, the service and Redis.
func (r results) checkCost(setup, load string) []float64 {
	costs := r.of(setup, load, func(s *sample) float64 {
		return s.CPUMicros.Envoy + s.CPUMicros.Service + s.CPUMicros.Redis
	})
	for i, without := range r.of(unlimited, load, envoyCPU) {
		costs[i] -= without
	}
	return costs
}

// fasterPair is the one of the two tunings of the ratelimit filter and its
// service that answers more under a load.
func (r results) fasterPair(load string) string {
	if r.spread(pairCached, load, requestsPerSecond).Median > r.spread(pair, load, requestsPerSecond).Median {
		return pairCached
	}
	return pair
}
