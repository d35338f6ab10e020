package main

import (
	"fmt"
	"maps"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestPublishedFootprint holds the documents to the table that "make footprint PUBLISH=1" wrote last.
func TestPublishedFootprint(t *testing.T) {
	t.Parallel()
	_, block, _ := strings.Cut(string(testenv.File(t, footprintPage)), footprintBegins)
	head, _, _ := strings.Cut(block, "\n")
	published := parseTable(block)
	testenv.Same(t, "rows", len(published), len(proxies))
	changed, err := published.pages(head).Changed(testenv.Root(t))
	testenv.Same(t, "error", err, nil)
	testenv.Same(t, "documents that show something else", len(changed), 0)
}

// TestFootprint says what a table means, in the page that has it and in those that have a sentence of it.
func TestFootprint(t *testing.T) {
	t.Parallel()
	measured := footprint{
		{withoutWasm, 4}: {0.06, 66, 14}, {withoutWasm, 8}: {0.06, 68, 16},
		{anyFilter, 4}: {0.08, 86, 22}, {anyFilter, 8}: {0.09, 92, 27},
		{shipped, 4}: {1.11, 112, 48}, {shipped, 8}: {1.14, 120, 54},
		{throughRelay, 4}: {1.10, 108, 45}, {throughRelay, 8}: {1.11, 113, 49},
		{threeShared, 4}: {1.15, 113, 49}, {threeApart, 4}: {1.33, 136, 72},
	}
	pages := measured.pages("head")
	text := pages[footprintPage].Text
	for _, want := range []string{
		"head\n\n" + tableHead, "| `envoy.yaml` | 4 | 1.11 | 112 | 48 |\n",
		"46 MB and 1.1 s of CPU, with 4 workers.\n  Through a relay: 42 MB.",
		"A further worker**: 1.5 MB. Through a relay: 0.8 MB.",
		"for any Wasm filter: 20 MB, and 1.0 MB a worker for each VM", "another policy: 0.3 MB where",
		"`vm_id`, 8 MB where", "some 11 s to start",
	} {
		testenv.Same(t, "that the page has "+want, strings.Contains(text, want), true)
	}
	testenv.Same(t, "the rows that are read again", maps.Equal(parseTable(text), measured), true)
	for _, name := range summaries {
		testenv.Same(t, name, strings.Join(pages[name].Sentences, "\n"),
			"46 MB and 1.1 s of CPU at the start in every proxy")
	}
}

// parseTable reads what publish has written.
func parseTable(text string) footprint {
	t := footprint{}
	_, rest, _ := strings.Cut(text, tableHead)
	for line := range strings.Lines(rest) {
		name, numbers, _ := strings.Cut(strings.TrimPrefix(line, "| "), " | ")
		p, f := proxy{name: name}, figures{}
		if _, err := fmt.Sscanf(numbers, "%d | %f | %f | %f |", &p.workers, &f.seconds, &f.mb, &f.anon); err != nil {
			break
		}
		t[p] = f
	}
	return t
}

// TestProxies: each row runs the filters that its name says.
func TestProxies(t *testing.T) {
	t.Parallel()
	filters := map[string]string{
		withoutWasm: "", anyFilter: "bridge.wasm", shipped: "sluice.wasm inline", throughRelay: "sluice.wasm",
		threeShared: "sluice.wasm sluice.wasm sluice.wasm sluice.wasm inline",
		threeApart:  "sluice.wasm sluice.wasm sluice-0 sluice.wasm sluice-1 sluice.wasm sluice-2 inline",
	}
	code := regexp.MustCompile(`filename: \S*/([a-z]+\.wasm)|vm_id: (sluice-[0-9])|(inline)_bytes:`)
	for _, p := range proxies {
		at := place{listener: 1001, admin: 1002, root: "..", workers: p.workers}
		c, err := p.config(at)
		if err != nil {
			t.Fatal(err)
		}
		text, err := c.YAML()
		testenv.Same(t, p.name+": error", err, nil)
		var found []string
		for _, names := range code.FindAllStringSubmatch(string(text), -1) {
			found = append(found, strings.Join(names[1:], ""))
		}
		testenv.Same(t, p.name+": filters", strings.Join(found, " "), filters[p.name])
	}
}
