package main

import (
	"bytes"
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
	testenv.OK(t, json.Unmarshal(testenv.File(t, recorded), r))
	return r
}

// TestPublish: the documents show every number of the run that was published last. In copies of them other
// results are shown, then those of the last run again.
func TestPublish(t *testing.T) {
	t.Parallel()
	dir, r := t.TempDir(), last(t)
	pages, err := r.pages()
	testenv.OK(t, err)
	texts := map[string][]byte{recorded: testenv.File(t, recorded)}
	for name := range pages {
		texts[name] = testenv.File(t, name)
	}
	for name, text := range texts {
		path := filepath.Join(dir, name)
		testenv.OK(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, text, 0o600)))
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
		testenv.OK(t, c.results.publish(dir))
		for name, text := range texts {
			same := bytes.Equal(testenv.Read(t, filepath.Join(dir, name)), text)
			testenv.Same(t, name+": that it shows the published run", same, c.same)
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
