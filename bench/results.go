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

// quantities are what a sample tells, by the names that pages.tmpl has for it.
var quantities = map[string]func(*sample) float64{
	"requests":   func(s *sample) float64 { return s.RequestsPerSecond },
	"envoy":      func(s *sample) float64 { return s.CPUMicros.Envoy },
	"service":    func(s *sample) float64 { return s.CPUMicros.Service },
	"redis":      func(s *sample) float64 { return s.CPUMicros.Redis },
	"envoy MB":   func(s *sample) float64 { return s.MemoryMB.Envoy },
	"service MB": func(s *sample) float64 { return s.MemoryMB.Service },
	"redis MB":   func(s *sample) float64 { return s.MemoryMB.Redis },
	"commands":   func(s *sample) float64 { return s.RedisCommands },
	"foreign":    func(s *sample) float64 { return s.Foreign },
	"stolen":     func(s *sample) float64 { return 100 * s.Stolen },
	// How many requests a second of CPU time serves, of Envoy, the service and Redis together.
	"served": func(s *sample) float64 { return 1e6 / (s.CPUMicros.Envoy + s.CPUMicros.Service + s.CPUMicros.Redis) },
}

// of is a quantity in every round.
func (r results) of(setup, quantity string) []float64 {
	values := make([]float64, 0, len(r[setup]))
	for _, s := range r[setup] {
		values = append(values, quantities[quantity](s))
	}
	return values
}

// spread is the range of several rounds; of a comparison, its interval of 95 %.
type spread struct{ Median, Min, Max float64 }

// spreadOf is not a number of no value.
func spreadOf(values []float64) spread {
	if len(values) == 0 {
		return spread{math.NaN(), math.NaN(), math.NaN()}
	}
	return spread{Median: measure.Median(values), Min: slices.Min(values), Max: slices.Max(values)}
}

// Text writes a spread with some decimals: "2.45 (2.31-2.60)", and "-" for what was not measured.
func (s spread) Text(decimals int) string {
	if math.IsNaN(s.Median) {
		return "-"
	}
	return fmt.Sprintf("%.*f (%.*f-%.*f)", decimals, s.Median, decimals, s.Min, decimals, s.Max)
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
		return spreadOf(nil)
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
