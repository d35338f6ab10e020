package main

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

var (
	escaped    = regexp.MustCompile(`\\\|`)
	href       = regexp.MustCompile(`href="([^"]+)"`)
	definition = regexp.MustCompile(`(?m)^\[([^\]]+)\]: `)
	reference  = regexp.MustCompile(`\]\[([^\]]+)\]`)
)

// TestTables holds that each row of a table has as many cells as its head: GitHub drops those that
// are too many, and a bar within a cell begins another one, in code, too, unless it is escaped.
func TestTables(t *testing.T) {
	t.Parallel()
	rows := 0
	for page, text := range pages(t) {
		bars := 0 // of the table that is being read; 0 outside of one
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "|") {
				bars = 0
				continue
			}
			rows++
			has := strings.Count(escaped.ReplaceAllString(line, ""), "|")
			if bars == 0 {
				bars = has
			}
			testenv.Same(t, page+": the bars of "+line, has, bars)
		}
	}
	if rows < 1000 {
		t.Errorf("only %d rows", rows)
	}
}

// TestReferences holds that every link by reference has its definition, and every definition a link.
func TestReferences(t *testing.T) {
	t.Parallel()
	found := 0
	for page, text := range pages(t) {
		defined, used := names(definition, text), names(reference, text)
		if len(defined) == 0 {
			continue // what looks like a reference there is code
		}
		found += len(defined)
		testenv.SameList(t, page+": the references", used, defined)
	}
	if found < 60 {
		t.Errorf("only %d definitions", found)
	}
}

// names are the matches of an expression in a text, each once, in order.
func names(of *regexp.Regexp, text string) (all []string) {
	for _, m := range of.FindAllStringSubmatch(text, -1) {
		all = append(all, m[1])
	}
	slices.Sort(all)
	return slices.Compact(all)
}
