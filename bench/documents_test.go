package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// published is the run that the documents show.
func published(t *testing.T) *report {
	t.Helper()
	r, err := readRun(filepath.Join(testenv.Root(t), publishedRun+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestDocumentsShowThePublishedRun holds tables and figures of the documents to the published results,
// and to the instructions that are recorded.
func TestDocumentsShowThePublishedRun(t *testing.T) {
	t.Parallel()
	root, r := testenv.Root(t), published(t)
	counts, err := readCounts(root)
	if err != nil {
		t.Fatal(err)
	}
	changed, err := r.pages(counts).Changed(root)
	if err != nil {
		t.Fatal(err)
	}
	for name := range changed {
		t.Errorf("%s does not show the published run (go run . -show results/published.json)", name)
	}
	text, err := os.ReadFile(filepath.Join(root, publishedRun+".md"))
	if err != nil {
		t.Fatal(err)
	}
	testenv.Same(t, publishedRun+".md", string(text), show("run", r))
}
