package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
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
	return r, nil
}

// publish makes a run the one that the documents show, beside the instructions that are recorded.
func (r *report) publish(root string) error {
	record, err := r.files(publishedRun)
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
	median := func(setup string, q quantity) float64 { return all.spread(setup, q).Median }
	check := func(setup string) float64 { return all.checkCost(setup).Median }
	faster := all.fasterPair()
	inEnvoy := func(setup string) float64 { return check(setup) - median(setup, redisCPU) }
	return measure.Pages{
		readmePage: r.readme(counts),
		"docs/sizing.md": {Sentences: []string{
			fmt.Sprintf("requests per second × %.0f µs for one rule", inEnvoy(sluice)),
			fmt.Sprintf("a million a second keep some %.0f cores of Envoys busy", inEnvoy(sluice)),
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
	faster := r.Results.fasterPair()
	return measure.Page{
		Begins: "<!-- \"make count PUBLISH=1\" and \"make bench PUBLISH=1\" write this. -->\n",
		Text:   r.readmeTable(counts) + "\n",
		Sentences: []string{fmt.Sprintf("%.2f of the instructions and %.1f times the requests per second",
			float64(counts.Setups[sluice].sum())/float64(counts.Setups[pair].sum()),
			r.Results.ratio(sluice, faster, requestsPerSecond).Median)},
	}
}

// readmeTable is README's table of speed, and how it came about. How often the pair's requests fit into a
// row's is the quotient of the two numbers that a reader sees.
func (r *report) readmeTable(counts tally) string {
	var b strings.Builder
	b.WriteString("| | 1000 instructions beyond no limiter | requests/s ÷ the pair's | requests/s |\n" +
		"|---|---:|---:|---:|\n")
	faster := r.Results.fasterPair()
	rate := func(setup string) float64 {
		return math.RoundToEven(r.Results.spread(setup, requestsPerSecond).Median)
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
		times := r.Results.ratio(sluice, r.Results.fasterPair(), requestsPerSecond)
		return fmt.Sprintf("With 95 %% probability Sluice's ratio is %.2f to %.2f.",
			times.Min, times.Max)
	}
	return "The machine was not quiet, or the run too short: figures vary by 20 % and more."
}

// counted is the work of one request, in instructions outside the kernel.
type counted struct {
	Envoy   int64 `json:"envoy"` // of its worker
	Service int64 `json:"service,omitempty"`
	Relay   int64 `json:"relay,omitempty"` // its worker
	Redis   int64 `json:"redis,omitempty"`
}

func (c counted) sum() int64 { return c.Envoy + c.Service + c.Relay + c.Redis }

// tally are the instructions of setups, by their names.
type tally struct {
	Machine machine            `json:"machine"`
	Setups  map[string]counted `json:"setups"`
}

// countsFile has what "make count" counted when it was published.
const countsFile = "bench/results/counts.json"

// runCount counts, and shows, publishes or checks what it has counted.
func runCount(ctx context.Context, root string, o options) error {
	names := strings.Split(o.count, ",")
	all := countedSetups(names)
	if len(names) > len(all) {
		var known []string
		for _, s := range subjects {
			known = append(known, s.id)
		}
		return fmt.Errorf("-count %s: unknown setups (want all, or some of %s)", o.count, strings.Join(known, ","))
	}
	var now tally
	err := onBench(ctx, root, func(b *bench, m machine) (err error) {
		now.Machine = m
		now.Setups, err = b.countAll(ctx, all)
		return err
	})
	if err != nil {
		return err
	}
	fmt.Print(now.table())
	switch {
	case o.check:
		recorded, err := readCounts(root)
		if err != nil {
			return err
		}
		return now.against(recorded)
	case o.publish:
		return now.publish(root)
	}
	return nil
}

func readCounts(root string) (c tally, err error) {
	text, err := os.ReadFile(filepath.Join(root, countsFile))
	if err != nil {
		return c, err
	}
	return c, json.Unmarshal(text, &c)
}

// publish records the counts, and shows them. Setups that were not counted keep what was recorded of
// them.
func (c tally) publish(root string) error {
	if recorded, err := readCounts(root); err == nil {
		maps.Copy(recorded.Setups, c.Setups)
		c.Setups = recorded.Setups
	}
	text, err := json.MarshalIndent(c, "", " ")
	if err != nil {
		return err
	}
	timed, err := readRun(filepath.Join(root, publishedRun+".json"))
	if err != nil {
		return err
	}
	return timed.pages(c).Publish(root, map[string]string{countsFile: string(text) + "\n"})
}

// beyond is what a setup takes beyond no limiter; 0 if one of the two was not counted.
func (c tally) beyond(setup string) int64 {
	if c.Setups[unlimited].Envoy == 0 || c.Setups[setup].sum() == 0 {
		return 0
	}
	return c.Setups[setup].sum() - c.Setups[unlimited].sum()
}

// table shows the counts, in thousands, and what a request takes beyond one without a limiter.
func (c tally) table() string {
	var b strings.Builder
	b.WriteString("| instructions a request, in thousands | Envoy's worker | the service, or the relay | Redis | all | " +
		"beyond no limiter |\n")
	b.WriteString("|---|---:|---:|---:|---:|---:|\n")
	for _, s := range choose(func(s *setup) bool { return !s.onlyTimed }) {
		n, ok := c.Setups[s.id]
		if !ok {
			continue
		}
		beyond := ""
		if s.status == 200 {
			beyond = inThousands(c.beyond(s.id))
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", s.title, inThousands(n.Envoy), inThousands(n.Service+n.Relay),
			inThousands(n.Redis), inThousands(n.sum()), beyond)
	}
	return b.String()
}

func inThousands(n int64) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f", float64(n)/1000)
}

// tolerance is how much dearer or cheaper the usual request may be than the recorded one.
const tolerance = 0.01

// usual is the cost of the usual request, as a multiple of one without a limiter: what differs between
// two machines, such as how Envoy's libc copies, cancels out.
func (c tally) usual() float64 {
	return float64(c.Setups[sluice].Envoy) / float64(c.Setups[unlimited].Envoy)
}

// against holds the usual request to what is recorded.
func (c tally) against(recorded tally) error {
	now, was := c.usual(), recorded.usual()
	fmt.Printf("\nA usual request takes %.4f times what one without a limiter takes; %.4f is recorded.\n", now, was)
	if change := now/was - 1; math.IsNaN(change) || math.Abs(change) > tolerance {
		return fmt.Errorf("that is %+.1f %% (want at most %.0f %%; if it is meant, record it: make count PUBLISH=1)",
			change*100, tolerance*100)
	}
	return nil
}
