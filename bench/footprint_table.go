package main

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/internal/measure"
)

// The rows, by their names.
const (
	withoutWasm  = "without Wasm"
	anyFilter    = "a filter of 1.6 KB that does nothing"
	shipped      = "`envoy.yaml`"
	throughRelay = "`envoy.yaml` through a relay, without a bridge"
	threeShared  = "3 more configurations that share its `vm_id`"
	threeApart   = "3 more configurations, each with a `vm_id`"
)

// figures are a row as measured.
type figures struct {
	name     string
	workers  int
	seconds  float64 // of CPU, to start
	mb, anon float64 // resident, and the part that is no page of a file
}

// footprint are all rows of the table.
type footprint []figures

func (t footprint) row(name string, workers int) figures {
	for _, r := range t {
		if r.name == name && r.workers == workers {
			return r
		}
	}
	return figures{}
}

const tableHead = "| | workers | CPU to start, s | memory, MB | of that anonymous, MB |\n|---|---:|---:|---:|---:|\n"

func (t footprint) markdown() string {
	var b strings.Builder
	b.WriteString(tableHead)
	for _, r := range t {
		fmt.Fprintf(&b, "| %s | %d | %.2f | %.0f | %.0f |\n", r.name, r.workers, r.seconds, r.mb, r.anon)
	}
	return b.String()
}

// beyond is the memory of a row beyond an Envoy without Wasm, in MB.
func (t footprint) beyond(name string) float64 { return t.row(name, 4).mb - t.row(withoutWasm, 4).mb }

// toStart is the CPU of the shipped file beyond such an Envoy's, in seconds.
func (t footprint) toStart() float64 {
	return t.row(shipped, 4).seconds - t.row(withoutWasm, 4).seconds
}

// worker is the memory of a row's further worker, in MB, without its share of an Envoy without Wasm.
func (t footprint) worker(name string) float64 {
	grows := func(name string) float64 { return (t.row(name, 8).mb - t.row(name, 4).mb) / 4 }
	return grows(name) - grows(withoutWasm)
}

// configuration is the memory of a further configuration, in MB.
func (t footprint) configuration(name string) float64 {
	return (t.row(name, 4).mb - t.row(shipped, 4).mb) / 3
}

// sentences say what the table means.
func (t footprint) sentences() string {
	s := t.row(shipped, 4)
	return fmt.Sprintf(`- **Beyond an Envoy without Wasm**: %.0f MB and %.1f s of CPU, with 4 workers.
  Through a relay: %.0f MB.
- **A further worker**: %.1f MB. Through a relay: %.1f MB.
- **Of that Envoy's own**, for any Wasm filter: %.0f MB, and %.1f MB a worker for each VM.
- **A further configuration**, such as a second listener's or another policy: %.1f MB where it shares the
  `+"`vm_id`"+`, %.0f MB where it has one of its own.
- **100m of CPU** is a tenth of a core: such a proxy takes some %.0f s to start.
`, t.beyond(shipped), t.toStart(), t.beyond(throughRelay), t.worker(shipped), t.worker(throughRelay),
		t.beyond(anyFilter), t.worker(anyFilter), t.configuration(threeShared), t.configuration(threeApart), s.seconds*10)
}

// goals holds the table to what a proxy may cost.
func (t footprint) goals() string {
	var b strings.Builder
	for _, g := range []struct {
		what      string
		got, most float64
	}{
		{"CPU to start with 4 workers, s", t.row(shipped, 4).seconds, 1.2},
		{"memory beyond an Envoy without Wasm, MB", t.beyond(shipped), 50},
		{"the same through a relay, MB", t.beyond(throughRelay), 50},
		{"memory of a further worker, MB", t.worker(shipped), 2},
		{"the same through a relay, MB", t.worker(throughRelay), 2},
		{"memory of a further configuration with the same vm_id, MB", t.configuration(threeShared), 0.5},
	} {
		word := "met"
		if g.got > g.most {
			word = "missed"
		}
		fmt.Fprintf(&b, "%s: %.2f (want at most %g): %s\n", g.what, g.got, g.most, word)
	}
	return b.String()
}

// The document that has the table, what stands before it there, and those that have it in a sentence.
const (
	footprintPage   = "docs/operations.md"
	footprintBegins = "<!-- \"make footprint PUBLISH=1\" writes what follows. -->\n\n"
)

var summaries = []string{"README.md", "docs/comparison.md"}

// rounded has the figures as the table shows them, so that a reader who computes what follows from
// them gets the same.
func (t footprint) rounded() footprint {
	shown := slices.Clone(t)
	for i, r := range shown {
		shown[i].seconds, shown[i].mb, shown[i].anon = math.Round(r.seconds*100)/100, math.Round(r.mb), math.Round(r.anon)
	}
	return shown
}

// pages are the parts of the table that documents show.
func (t footprint) pages(head string) measure.Pages {
	t = t.rounded()
	pages := measure.Pages{footprintPage: {
		Begins: footprintBegins, Text: head + "\n\n" + t.markdown() + "\n" + t.sentences() + "\n",
	}}
	for _, name := range summaries {
		pages[name] = measure.Page{Sentences: []string{
			fmt.Sprintf("%.0f MB and %.1f s of CPU at the start in every proxy", t.beyond(shipped), t.toStart()),
		}}
	}
	return pages
}
