package main

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// published is the run that the documents show.
func published(t *testing.T) *report {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(testenv.Root(t), "bench/results/published.json"))
	if err != nil {
		t.Fatal(err)
	}
	r := &report{}
	if err := json.Unmarshal(text, r); err != nil {
		t.Fatal(err)
	}
	return r
}

// thousands writes a number as the documents do: 13904 as 13,904.
func thousands(n float64) string {
	text := fmt.Sprintf("%.0f", n)
	if len(text) > 3 {
		text = text[:len(text)-3] + "," + text[len(text)-3:]
	}
	return text
}

// readmeRow is a row of README's table of speed: what it calls a setup, and whether that
// admits, so that a check has a cost.
type readmeRow struct {
	title, setup string
	admits       bool
}

// text is the row as README should have it. How often the pair's requests fit into the
// row's is the quotient of the two numbers that a reader sees.
func (row readmeRow) text(r results) string {
	median := func(setup string, q quantity) float64 { return r.spread(setup, mainLoad, q).Median }
	cpu := ""
	if row.admits {
		cpu = fmt.Sprintf("%.0f µs", spreadOf(r.checkCost(row.setup, mainLoad)).Median)
	}
	requests := math.RoundToEven(median(row.setup, requestsPerSecond))
	times := requests / math.RoundToEven(median(r.fasterPair(mainLoad), requestsPerSecond))
	open := func(q quantity) float64 { return r.spread(row.setup, latencyLoad, q).Median / 1000 }
	return strings.Join(strings.Fields(fmt.Sprintf("| %s | %s | %.2f | %s | %.2f, %.1f ms |",
		row.title, thousands(requests), times, cpu, open(p50), open(p99))), " ")
}

// TestREADMEShowsThePublishedRun holds README's table to the published results.
func TestREADMEShowsThePublishedRun(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(testenv.Root(t), "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	r := published(t)
	for _, row := range []readmeRow{
		{"no limiter", unlimited, false},
		{"**Sluice**", sluice, true},
		{"Sluice through `redis_proxy`", sluiceProxy, true},
		{"Sluice with leases", leased, true},
		{"the pair", r.Results.fasterPair(mainLoad), true},
		{"Sluice, denied from memory", sluiceDenied, false},
		{"the pair, denied from memory", pairDenied, false},
	} {
		if want := row.text(r.Results); !strings.Contains(strings.Join(strings.Fields(string(readme)), " "), want) {
			t.Errorf("README has no row\n%s", want)
		}
	}
	if want := "`" + r.Command + "`"; !strings.Contains(string(readme), want) {
		t.Errorf("README does not say that it shows %s", want)
	}
}

// TestDocumentsShowThePublishedRun holds the figures in the text of the documents to the
// published results. What a proxy pays at its start is cmd/footprint's to hold.
func TestDocumentsShowThePublishedRun(t *testing.T) {
	t.Parallel()
	r := published(t).Results
	median := func(setup string, q quantity) float64 { return r.spread(setup, mainLoad, q).Median }
	envoy := func(setup string) string { return fmt.Sprintf("%.0f", median(setup, envoyCPU)) }
	faster := r.fasterPair(mainLoad)
	inEnvoy := func(setup string) float64 {
		return spreadOf(r.checkCost(setup, mainLoad)).Median - median(setup, redisCPU)
	}
	for page, sentences := range map[string][]string{
		"docs/scale.md": {
			fmt.Sprintf("a check costs %.0f µs", spreadOf(r.checkCost(sluice, mainLoad)).Median),
			fmt.Sprintf("Redis' %.0f included", median(sluice, redisCPU)),
			fmt.Sprintf("`redis_proxy`, which adds %.0f µs", median(sluiceProxy, envoyCPU)-median(sluice, envoyCPU)),
		},
		"docs/comparison.md": {
			envoy(faster) + " µs a request with the pair, " + envoy(sluice) + " with Sluice, " + envoy(unlimited) +
				" without a limiter",
		},
		"docs/capacity.md": {
			fmt.Sprintf("requests per second × %.0f µs, or %.0f µs through `redis_proxy`", inEnvoy(sluice),
				inEnvoy(sluiceProxy)),
		},
		"docs/benchmarks.md": {
			"Envoy spends " + envoy(unlimited) + " µs of CPU on a request without a limiter, " + envoy(emptyWasm) +
				" with a Wasm filter that does nothing, " + envoy(sluice) + " with Sluice and " + envoy(faster) +
				" with the pair's filter",
		},
	} {
		text, err := os.ReadFile(filepath.Join(testenv.Root(t), page))
		if err != nil {
			t.Fatal(err)
		}
		for _, sentence := range sentences {
			if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), sentence) {
				t.Errorf("%s does not say %q", page, sentence)
			}
		}
	}
}
