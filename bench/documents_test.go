package main

import (
	"os"
	"path/filepath"
	"strings"
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

// TestDocumentsShowThePublishedRun holds tables and figures of the documents to the published results.
// What a proxy pays at its start is cmd/footprint's to hold.
func TestDocumentsShowThePublishedRun(t *testing.T) {
	t.Parallel()
	root, r := testenv.Root(t), published(t)
	for _, name := range shownIn {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		shown, err := r.show(name, string(text))
		if err != nil {
			t.Error(err)
			continue
		}
		if shown != string(text) {
			t.Errorf("%s does not show the published run (go run . -show results/published.json)", name)
		}
	}
	var b strings.Builder
	if err := r.writeMarkdown(&b); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, publishedRun+".md"))
	if err != nil {
		t.Fatal(err)
	}
	testenv.Same(t, publishedRun+".md", string(text), b.String())
}

// TestRenumber: a sentence finds its numbers wherever its lines break.
func TestRenumber(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ page, sentence, want string }{
		{"It takes 12\nµs, of Redis 3.5.", "takes 1.5 µs, of Redis 40", "It takes 1.5\nµs, of Redis 40."},
		{"× 14 µs (x)", "× 9 µs (x)", "× 9 µs (x)"},
		{"nothing", "takes 1 µs", `does not say "takes 1 µs" with any numbers`},
	} {
		got, err := renumber(test.page, test.sentence)
		if err != nil {
			got = err.Error()
		}
		testenv.Same(t, test.sentence, got, test.want)
	}
}
