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

// The files of a run that is published, in the repository, and the pages that show figures most.
const (
	publishedRun   = "bench/results/published"
	publishedSVG   = "docs/img/bench.svg"
	benchmarksPage = "docs/benchmarks.md"
	readmePage     = "README.md"
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

// publish makes a run the one that the documents show, beside the instructions that are recorded.
func (r *report) publish(root string) error {
	record, err := r.files(publishedRun, r.tables())
	if err != nil {
		return err
	}
	record[publishedSVG] = record[publishedRun+".svg"]
	delete(record, publishedRun+".svg")
	counts, err := readCounts(root)
	if err != nil {
		return err
	}
	return r.pages(counts).Publish(root, record)
}

// countsBegin stands before the table of instructions.
const countsBegin = "<!-- The table is written by \"make count PUBLISH=1\". -->\n\n"

// pages are the documents that show a run and what was counted: tables, and figures in their text.
func (r *report) pages(counts tally) measure.Pages {
	all := r.Results
	median := func(setup string, q quantity) float64 { return all.spread(setup, mainLoad, q).Median }
	check := func(setup string) float64 { return all.checkCost(setup, mainLoad).Median }
	faster := all.fasterPair(mainLoad)
	inEnvoy := func(setup string) float64 { return check(setup) - median(setup, redisCPU) }
	return measure.Pages{
		readmePage: r.readme(counts),
		"docs/sizing.md": {Sentences: []string{
			fmt.Sprintf("requests per second × %.0f µs, or %.0f µs through `redis_proxy`", inEnvoy(sluice),
				inEnvoy(sluiceProxy)),
			fmt.Sprintf("a check costs %.0f µs, Redis' %.0f included ([benchmarks](benchmarks.md)), so a million a second keep "+
				"some %.0f cores of Envoys busy", check(sluice), median(sluice, redisCPU), inEnvoy(sluice)),
			fmt.Sprintf("took %.0f %% of the throughput",
				100-100*median(sluiceProxy, requestsPerSecond)/median(sluice, requestsPerSecond)),
		}},
		"docs/comparison.md": {Sentences: []string{fmt.Sprintf(
			"Envoy spends %.0f µs a request with the pair of `ratelimit` and its service, %.0f with Sluice, "+
				"**%.0f with `local_ratelimit`**, and %.0f without a limiter",
			median(faster, envoyCPU), median(sluice, envoyCPU), median(local, envoyCPU), median(unlimited, envoyCPU),
		)}},
		benchmarksPage: {Begins: countsBegin, Text: counts.table() + "\n", Sentences: []string{fmt.Sprintf(
			"Envoy spends %.0f µs of CPU on a request without a limiter, %.0f with a Wasm filter that does nothing, "+
				"%.0f with Sluice and %.0f with the pair's filter, whose service then takes %.0f more. "+
				"Redis takes %.0f for Sluice and %.0f for the pair",
			median(unlimited, envoyCPU), median(emptyWasm, envoyCPU), median(sluice, envoyCPU), median(faster, envoyCPU),
			median(faster, serviceCPU), median(sluice, redisCPU), median(faster, redisCPU),
		)}},
	}
}

// readme is what README shows: a table of speed, and two figures in its text.
func (r *report) readme(counts tally) measure.Page {
	faster := r.Results.fasterPair(mainLoad)
	return measure.Page{
		Begins: "<!-- \"make count PUBLISH=1\" and \"make bench PUBLISH=1\" write this. -->\n",
		Text:   r.readmeTable(counts) + "\n",
		Sentences: []string{fmt.Sprintf("%.2f of the instructions and %.1f times the requests per second",
			float64(counts.Setups[sluice].sum())/float64(counts.Setups[pair].sum()),
			r.Results.ratio(sluice, faster, mainLoad, requestsPerSecond).Median)},
	}
}

// readmeTable is README's table of speed, and how it came about. How often the pair's requests fit into a
// row's is the quotient of the two numbers that a reader sees.
func (r *report) readmeTable(counts tally) string {
	var b strings.Builder
	b.WriteString("| | 1000 instructions beyond no limiter | requests/s ÷ the pair's | requests/s |\n" +
		"|---|---:|---:|---:|\n")
	faster := r.Results.fasterPair(mainLoad)
	rate := func(setup string) float64 {
		return math.RoundToEven(r.Results.spread(setup, mainLoad, requestsPerSecond).Median)
	}
	for _, row := range []struct{ title, counted, timed string }{
		{"**Sluice**", sluice, sluice},
		{"Sluice with a lease", leased, leased},
		{"Sluice through a relay", relayed, ""},
		{"the pair", pair, faster},
		{"`local_ratelimit`, which shares nothing", "", local},
		{"Sluice, refused", "", sluiceDenied},
		{"the pair, refused", "", pairDenied},
		{"`local_ratelimit`, refused", "", localDenied},
	} {
		beyond, times, requests := "", "", ""
		if row.counted != "" {
			beyond = inThousands(counts.beyond(row.counted))
		}
		if row.timed != "" {
			times, requests = fmt.Sprintf("%.2f", rate(row.timed)/rate(faster)), svg.Grouped(rate(row.timed), 0)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", row.title, beyond, times, requests)
	}
	fmt.Fprintf(&b, "\nInstructions of all processes, %s. Medians of `%s`, %s.\n%s", counts.Machine.Date, r.Command,
		r.Machine.Date, r.quality())
	return b.String()
}

// quality says how much a run is to be trusted.
func (r *report) quality() string {
	o := options{rounds: r.Rounds, seconds: r.Seconds}
	noise := disturbed(spreadOf(r.each(foreign)).Max, spreadOf(r.each(stolenPercent)).Max/100)
	if o.publishable() == nil && noise == nil {
		times := r.Results.ratio(sluice, r.Results.fasterPair(mainLoad), mainLoad, requestsPerSecond)
		return fmt.Sprintf("With 95 %% probability Sluice's ratio is %.2f to %.2f.",
			times.Min, times.Max)
	}
	return "The machine was not quiet, or the run too short: figures vary by 20 % and more."
}
