package main

import (
	"path/filepath"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestDocumentsShowThePublishedRun holds tables, figures and chart of the documents to the published
// results, and to the instructions that are recorded.
func TestDocumentsShowThePublishedRun(t *testing.T) {
	t.Parallel()
	root := testenv.Root(t)
	r, err := readRun(filepath.Join(root, publishedRun+".json"))
	if err != nil {
		t.Fatal(err)
	}
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
	files, err := r.files(publishedRun, publishedChart)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if string(testenv.File(t, name)) != want {
			t.Errorf("%s is not that of the published run", name)
		}
	}
	testenv.WellFormed(t, publishedChart, []byte(files[publishedChart]))
}
