package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluiceproxy/sluice/internal/measure"
)

// results are the samples by setup, in the order of the rounds.
type results map[string][]*sample

// spread is the range of several rounds; of a comparison, its interval of 95 %.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// unmeasured is a comparison with what was not measured.
var unmeasured = spread{math.NaN(), math.NaN(), math.NaN()}

// spreadOf is 0 of no value: of what was not measured.
func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	return spread{Median: measure.Median(values), Min: slices.Min(values), Max: slices.Max(values)}
}

// text writes a spread with some decimals: "2.45 (2.31-2.60)", and "-" for what was not measured.
func (s spread) text(decimals int) string {
	if math.IsNaN(s.Median) {
		return "-"
	}
	return fmt.Sprintf("%.*f (%.*f-%.*f)", decimals, s.Median, decimals, s.Min, decimals, s.Max)
}

// quantity is something that a sample tells.
type quantity func(*sample) float64

func requestsPerSecond(s *sample) float64 { return s.RequestsPerSecond }
func envoyCPU(s *sample) float64          { return s.CPUMicros.Envoy }
func serviceCPU(s *sample) float64        { return s.CPUMicros.Service }
func redisCPU(s *sample) float64          { return s.CPUMicros.Redis }
func redisCommands(s *sample) float64     { return s.RedisCommands }
func foreign(s *sample) float64           { return s.Foreign }
func stolenPercent(s *sample) float64     { return 100 * s.Stolen }

// requestsPerCPUSecond is how many requests a second of CPU time serves, of Envoy, the
// service and Redis together.
func requestsPerCPUSecond(s *sample) float64 {
	return 1e6 / (s.CPUMicros.Envoy + s.CPUMicros.Service + s.CPUMicros.Redis)
}

// of is a quantity in every round.
func (r results) of(setup string, q quantity) []float64 {
	values := make([]float64, 0, len(r[setup]))
	for _, s := range r[setup] {
		values = append(values, q(s))
	}
	return values
}

func (r results) spread(setup string, q quantity) spread {
	if len(r[setup]) == 0 {
		return unmeasured
	}
	return spreadOf(r.of(setup, q))
}

// How an interval is found: the rounds are drawn anew so many times, with a seed, so that a report of
// the same samples is the same.
// Bound: the draws of one comparison; an interval's ends then hardly depend on the seed.
const (
	draws    = 2000
	drawSeed = 38
)

// compare applies "of" to the medians of some series, as a reader can do with the rows of a table. Its
// interval holds the result with 95 % probability, by the bootstrap: it draws rounds with replacement
// and takes the medians again. All series have the same rounds drawn, because a slow machine slows all
// that is measured in a round.
// https://en.wikipedia.org/wiki/Bootstrapping_(statistics)
func compare(of func(medians []float64) float64, series ...[]float64) spread {
	rounds := len(series[0])
	for _, values := range series {
		rounds = min(rounds, len(values))
	}
	if rounds == 0 {
		return unmeasured
	}
	chance := rand.New(rand.NewPCG(drawSeed, uint64(rounds)))
	picked := make([]int, rounds)
	compute := func() float64 {
		medians := make([]float64, len(series))
		for i, values := range series {
			some := make([]float64, len(picked))
			for i, round := range picked {
				some[i] = values[round]
			}
			medians[i] = measure.Median(some)
		}
		return of(medians)
	}
	for i := range picked {
		picked[i] = i
	}
	result := spread{Median: compute()}
	drawn := make([]float64, draws)
	for i := range drawn {
		for j := range picked {
			picked[j] = chance.IntN(rounds)
		}
		drawn[i] = compute()
	}
	slices.Sort(drawn)
	result.Min, result.Max = drawn[draws/40], drawn[draws-1-draws/40]
	return result
}

func quotient(m []float64) float64 { return m[0] / m[1] }

// ratio compares two setups.
func (r results) ratio(setup, to string, q quantity) spread {
	return compare(quotient, r.of(setup, q), r.of(to, q))
}

// checkOf is the CPU time of limiting, us a request, from medians: what Envoy uses
// beyond Envoy without a limiter, the service and Redis.
func checkOf(m []float64) float64 { return m[0] + m[1] + m[2] - m[3] }

func (r results) checkCost(setup string) spread {
	return compare(checkOf, r.of(setup, envoyCPU), r.of(setup, serviceCPU), r.of(setup, redisCPU),
		r.of(unlimited, envoyCPU))
}

// fasterPair is the one of the two tunings of the ratelimit filter and its
// service that answers more, or the build that Sluice is measured beside.
func (r results) fasterPair() string {
	if len(r[before]) > 0 {
		return before
	}
	if r.spread(pairCached, requestsPerSecond).Median > r.spread(pair, requestsPerSecond).Median {
		return pairCached
	}
	return pair
}
