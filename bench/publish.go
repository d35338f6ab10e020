package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"

	"github.com/sluiceproxy/sluice/internal/measure"
	"github.com/sluiceproxy/sluice/internal/svg"
)

// The files of a run that is published, in the repository, and the page about the benchmark.
const (
	publishedRun   = "bench/results/published"
	publishedSVG   = "docs/img/bench.svg"
	benchmarksPage = "docs/benchmarks.md"
)

// readRun reads a run's results, and works out what follows from them.
func readRun(file string) (*report, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	r := &report{}
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	r.setups = choose(func(s *setup) bool { return len(r.Results[s.id]) > 0 })
	r.Goals = r.goals()
	return r, nil
}

// publish makes a run the one that the documents show.
func (r *report) publish(root string) error {
	record := map[string]string{publishedRun + ".md": r.markdown(), publishedSVG: r.chart()}
	var err error
	if record[publishedRun+".json"], err = r.json(); err != nil {
		return err
	}
	return r.pages().Publish(root, record)
}

// pages are the documents that show a run: its tables, and its figures in their text.
func (r *report) pages() measure.Pages {
	all := r.Results
	median := func(setup string, q quantity) float64 { return all.spread(setup, mainLoad, q).Median }
	check := func(setup string) float64 { return all.checkCost(setup, mainLoad).Median }
	faster := all.fasterPair(mainLoad)
	inEnvoy := func(setup string) float64 { return check(setup) - median(setup, redisCPU) }
	times := func(setup string) spread { return all.ratio(setup, faster, mainLoad, requestsPerSecond) }
	part := all.checks(over, sluice, faster, mainLoad)
	const begins = "<!-- \"make bench PUBLISH=1\" writes this. -->\n"
	return measure.Pages{
		"README.md": {Begins: begins, Text: r.readme() + "\n", Sentences: []string{
			fmt.Sprintf("%.1f (%.1f to %.1f) times the throughput of Envoy's `ratelimit` filter with envoyproxy/ratelimit on "+
				"the same two cores, for %.0f (%.0f to %.0f) %% of the CPU per check", times(sluice).Median, times(sluice).Min,
				times(sluice).Max, 100*part.Median, 100*part.Min, 100*part.Max),
			fmt.Sprintf("which a Redis Cluster needs, it is %.1f times", times(sluiceProxy).Median),
		}},
		"docs/scale.md": {Sentences: []string{
			fmt.Sprintf("a check costs %.0f µs, Redis' %.0f included ([benchmarks](benchmarks.md)), so a million a second keep "+
				"some %.0f cores of Envoys busy", check(sluice), median(sluice, redisCPU), inEnvoy(sluice)),
			fmt.Sprintf("`redis_proxy`, which adds %.0f µs", median(sluiceProxy, envoyCPU)-median(sluice, envoyCPU)),
		}},
		"docs/comparison.md": {Sentences: []string{fmt.Sprintf(
			"%.0f µs a request with the pair, %.0f with Sluice, %.0f without a limiter",
			median(faster, envoyCPU), median(sluice, envoyCPU), median(unlimited, envoyCPU),
		)}},
		"docs/capacity.md": {Sentences: []string{fmt.Sprintf(
			"requests per second × %.0f µs, or %.0f µs through `redis_proxy`", inEnvoy(sluice), inEnvoy(sluiceProxy),
		)}},
		benchmarksPage: {Begins: begins, Text: r.goalTable() + "\n", Sentences: []string{fmt.Sprintf(
			"Envoy spends %.0f µs of CPU on a request without a limiter, %.0f with a Wasm filter that does nothing, "+
				"%.0f with Sluice and %.0f with the pair's filter, whose service then takes %.0f more. "+
				"Redis takes %.0f for Sluice and %.0f for the pair",
			median(unlimited, envoyCPU), median(emptyWasm, envoyCPU), median(sluice, envoyCPU), median(faster, envoyCPU),
			median(faster, serviceCPU), median(sluice, redisCPU), median(faster, redisCPU),
		)}},
	}
}

// readme is README's table of speed, and how it came about. How often the pair's requests fit into a
// row's is the quotient of the two numbers that a reader sees.
func (r *report) readme() string {
	var b strings.Builder
	b.WriteString("| | requests/s | ÷ the pair's | CPU a request: Envoy, service, Redis | p50, p99 at " +
		fmt.Sprintf("%d/s |\n|---|---:|---:|---:|---:|\n", r.Rate))
	pair := math.RoundToEven(r.Results.spread(r.Results.fasterPair(mainLoad), mainLoad, requestsPerSecond).Median)
	for _, row := range []struct{ title, setup string }{
		{"no limiter", unlimited},
		{"**Sluice**", sluice},
		{"Sluice through `redis_proxy`", sluiceProxy},
		{"Sluice with leases", leased},
		{"the pair", r.Results.fasterPair(mainLoad)},
		{"Sluice, denied from memory", sluiceDenied},
		{"the pair, denied from memory", pairDenied},
	} {
		at := func(load string, q quantity) float64 { return r.Results.spread(row.setup, load, q).Median }
		requests := math.RoundToEven(at(mainLoad, requestsPerSecond))
		fmt.Fprintf(&b, "| %s | %s | %.2f | %.0f, %.0f, %.0f µs | %.2f, %.1f ms |\n", row.title,
			svg.Grouped(requests, 0), requests/pair, at(mainLoad, envoyCPU), at(mainLoad, serviceCPU), at(mainLoad, redisCPU),
			at(latencyLoad, p50)/1000, at(latencyLoad, p99)/1000)
	}
	fmt.Fprintf(&b, "\nMedians of `%s`, %s.\n%s", r.Command, r.Machine.Date, r.quality())
	return b.String()
}

// quality says how much a run is to be trusted.
func (r *report) quality() string {
	o := options{rounds: r.Rounds, seconds: r.Seconds}
	noise := disturbed(spreadOf(r.each(foreign)).Max, spreadOf(r.each(stolenPercent)).Max/100)
	if o.publishable() == nil && noise == nil {
		times := r.Results.ratio(sluice, r.Results.fasterPair(mainLoad), mainLoad, requestsPerSecond)
		return fmt.Sprintf("The machine was quiet: Sluice's multiple of the pair is %.2f to %.2f with 95 %% probability.",
			times.Min, times.Max)
	}
	return "The machine was not quiet, or the run too short: figures vary by 20 % and more."
}
