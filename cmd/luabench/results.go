package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/sluiceproxy/sluice/internal/measure"
)

// recorded has the results published last.
const recorded = "cmd/luabench/published.json"

// results are the figures of a run, rounded as they are recorded.
type results struct {
	Server    string             `json:"server"`
	Date      string             `json:"date"`
	Load      string             `json:"load"` // averages, before and after
	Rounds    int                `json:"rounds"`
	Micros    float64            `json:"micros"`    // of the base
	Multiples map[string]float64 `json:"multiples"` // of the base, by subject
	Ratios    map[string]float64 `json:"ratios"`    // by comparison
	Bytes     map[string]float64 `json:"bytes"`     // of an identity
}

// results are those of the bench, which has measured.
func (b *bench) results(ctx context.Context, before string, sizes map[string]float64) *results {
	r := &results{
		Server: b.version(ctx), Date: time.Now().UTC().Format(time.DateOnly),
		Load: before + " before, " + measure.Load() + " after", Rounds: b.rounds,
		Multiples: map[string]float64{}, Ratios: map[string]float64{}, Bytes: map[string]float64{},
	}
	for name, size := range sizes {
		r.Bytes[name] = math.Round(size)
	}
	if len(b.runners) == 0 {
		return r
	}
	r.Micros = hundredths(b.base.micros)
	for _, runner := range b.runners {
		r.Multiples[runner.name] = hundredths(runner.multiple)
	}
	for _, c := range comparisons {
		r.Ratios[c.name] = hundredths(b.ratios(c))
	}
	return r
}

func hundredths(values []float64) float64 { return math.Round(measure.Median(values)*100) / 100 }

// publish records the results, and shows them in the documents below root.
func (r *results) publish(root string) error {
	pages, err := r.pages()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return pages.Publish(root, map[string]string{recorded: string(text) + "\n"})
}

const row = "%-40s %9s %10s %15s %8s  %s\n"

// report prints what each subject costs, then the comparisons.
func (b *bench) report(out io.Writer) {
	low, _, high := measure.Quartiles(b.base.multiple)
	fmt.Fprintf(out, "CPU time of the server per check: median (quartiles); the base against itself %.2f-%.2f\n",
		low, high)
	fmt.Fprint(out, "Goals are for Redis 7.0.\n\n")
	fmt.Fprintf(out, row, "", "us", "x return 1", "", "goal", "")
	for _, r := range append([]*runner{b.base}, b.runners...) {
		writeRow(out, r.name, fmt.Sprintf("%.2f", measure.Median(r.micros)), r.multiple, r.goal)
	}
	fmt.Fprintln(out)
	for _, c := range comparisons {
		writeRow(out, c.name, "", b.ratios(c), c.goal)
	}
}

func writeRow(out io.Writer, name, micros string, values []float64, goal float64) {
	low, middle, high := measure.Quartiles(values)
	bound, verdict := "", ""
	if goal > 0 {
		bound, verdict = fmt.Sprintf("<= %.2f", goal), measure.Verdict(middle <= goal, low, goal, high)
	}
	fmt.Fprintf(out, row, name, micros, fmt.Sprintf("%.2f", middle), fmt.Sprintf("(%.2f-%.2f)", low, high), bound,
		verdict)
}

// ratios are a comparison's, one for each round, or what a subject costs more.
func (b *bench) ratios(c comparison) (ratios []float64) {
	found := map[string]*runner{}
	for _, r := range b.runners {
		found[r.name] = r
	}
	subject, of := found[c.subject], found[c.of]
	for i := range subject.micros {
		ratio := subject.micros[i] / of.micros[i]
		if c.more {
			ratio = subject.multiple[i] - of.multiple[i]
		}
		ratios = append(ratios, ratio)
	}
	return ratios
}
