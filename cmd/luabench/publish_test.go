package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// last is what was published last.
func last(t *testing.T) *results {
	t.Helper()
	r, err := readResults(filepath.Join(testenv.Root(t), recorded))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// read is a file of the repository.
func read(t *testing.T, root, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestDocumentsShowThePublishedRun holds every number that a run of this command gave a document.
func TestDocumentsShowThePublishedRun(t *testing.T) {
	t.Parallel()
	figures, err := last(t).figures()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range figures {
		page := read(t, testenv.Root(t), f.page)
		shown, err := f.show(page)
		if err != nil {
			t.Error(err)
		}
		if shown != page {
			t.Errorf("%s does not show %q (make bench-lua PUBLISH=1)", f.page, f.text)
		}
	}
}

// TestPublish shows other results in copies of the documents, then those of the last run again.
func TestPublish(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), last(t)
	figures, err := r.figures()
	if err != nil {
		t.Fatal(err)
	}
	pages := map[string]string{}
	for _, f := range figures {
		pages[f.page] = read(t, testenv.Root(t), f.page)
	}
	for name, text := range pages {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(recorded)), 0o700); err != nil {
		t.Fatal(err)
	}
	other := last(t)
	for _, all := range []map[string]float64{other.Multiples, other.Ratios, other.Bytes} {
		for name := range all {
			all[name] = all[name]*2 + 1
		}
	}
	for _, c := range []struct {
		results *results
		same    bool
	}{{other, false}, {r, true}} {
		if err := c.results.publish(dir); err != nil {
			t.Fatal(err)
		}
		for name, text := range pages {
			testenv.Same(t, name+": that it is as before", read(t, dir, name) == text, c.same)
		}
		testenv.Same(t, recorded+": that it is as before",
			read(t, dir, recorded) == read(t, testenv.Root(t), recorded), c.same)
	}
}

// TestPublishNamesWhatIsMissing: a run that did not measure something changes no page, and neither
// does a page that has lost the place of a number.
func TestPublishNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	r := last(t)
	delete(r.Multiples, "gcra")
	err := r.publish(t.TempDir())
	testenv.Same(t, "that the error names it", err != nil && strings.Contains(err.Error(), "not measured: gcra"), true)
	_, err = figure{"a.md", `(it costs )[0-9]+`, "7"}.show("it costs 1, and it costs 2")
	testenv.Same(t, "that two places are one too many", err != nil && strings.Contains(err.Error(), "has 2 places"), true)
}
