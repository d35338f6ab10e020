package main

import (
	"fmt"
	"io"
	"slices"
)

// median is the value in the middle.
func median(values []float64) float64 {
	_, middle, _ := quartiles(values)
	return middle
}

// quartiles are the values below which a quarter, a half and three quarters of
// all lie, interpolated; of at least one value.
func quartiles(values []float64) (low, middle, high float64) {
	sorted := slices.Sorted(slices.Values(values))
	at := func(part float64) float64 {
		place := part * float64(len(sorted)-1)
		i := int(place)
		next := sorted[min(i+1, len(sorted)-1)]
		return sorted[i] + (place-float64(i))*(next-sorted[i])
	}
	return at(0.25), at(0.5), at(0.75)
}

// verdict holds a median against a goal: above it, or within it; where the goal
// lies inside the quartiles, the noise does not decide.
func verdict(values []float64, goal float64) string {
	if goal == 0 {
		return ""
	}
	low, middle, high := quartiles(values)
	word := "met"
	if middle > goal {
		word = "MISSED"
	}
	if low <= goal && goal <= high {
		word += ", within the noise"
	}
	return word
}

const row = "%-40s %9s %10s %15s %8s  %s\n"

// report prints what each subject costs, then the comparisons.
func (b *bench) report(out io.Writer) {
	low, _, high := quartiles(b.base.multiple)
	fmt.Fprintf(out, "CPU time of the server per check: median (quartiles); the base against itself %.2f-%.2f\n",
		low, high)
	fmt.Fprint(out, "Goals are for Redis 7.0.\n\n")
	fmt.Fprintf(out, row, "", "us", "x return 1", "", "goal", "")
	for _, r := range append([]*runner{b.base}, b.runners...) {
		writeRow(out, r.name, fmt.Sprintf("%.2f", median(r.micros)), r.multiple, r.goal)
	}
	fmt.Fprintln(out)
	for _, c := range comparisons {
		writeRow(out, c.name, "", b.ratios(c), c.goal)
	}
}

func writeRow(out io.Writer, name, micros string, values []float64, goal float64) {
	low, middle, high := quartiles(values)
	bound := ""
	if goal > 0 {
		bound = fmt.Sprintf("<= %.2f", goal)
	}
	fmt.Fprintf(out, row, name, micros, fmt.Sprintf("%.2f", middle),
		fmt.Sprintf("(%.2f-%.2f)", low, high), bound, verdict(values, goal))
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
