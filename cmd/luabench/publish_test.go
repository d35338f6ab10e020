package main

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// last is the results published last.
func last(t *testing.T) *results {
	t.Helper()
	r := new(results)
	if err := json.Unmarshal([]byte(read(t, testenv.Root(t), recorded)), r); err != nil {
		t.Fatal(err)
	}
	return r
}

// read is a file of the repository.
func read(t *testing.T, root, name string) string {
	t.Helper()
	text := testenv.Read(t, filepath.Join(root, name))
	return string(text)
}

// TestPublish: the documents show every number of the run that was published last. In copies of them other
// results are shown, then those of the last run again.
func TestPublish(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), last(t)
	pages, err := r.pages()
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{recorded: read(t, testenv.Root(t), recorded)}
	for name := range pages {
		texts[name] = read(t, testenv.Root(t), name)
	}
	for name, text := range texts {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
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
	}{{r, true}, {other, false}, {r, true}} {
		if err := c.results.publish(dir); err != nil {
			t.Fatal(err)
		}
		for name, text := range texts {
			testenv.Same(t, name+": that it shows the published run", read(t, dir, name) == text, c.same)
		}
	}
}

// TestPublishNamesWhatIsMissing: a run that did not measure something changes no page.
func TestPublishNamesWhatIsMissing(t *testing.T) {
	t.Parallel()
	r := last(t)
	delete(r.Multiples, "gcra")
	err := r.publish(t.TempDir())
	testenv.Same(t, "that the error names it", err != nil && strings.Contains(err.Error(), "not measured: gcra"), true)
}
