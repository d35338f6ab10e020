package main

import (
	"encoding/json"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

const aLimit = `{"algorithm": "gcra", "limit": 10, "window": "1s"}`

// TestShippedFiles holds every file that has a configuration to be valid, without a warning.
func TestShippedFiles(t *testing.T) {
	t.Parallel()
	root := testenv.Root(t)
	args := []string{"validate", "--strict", "--if-present", filepath.Join(root, "envoy.yaml")}
	err := filepath.WalkDir(filepath.Join(root, "deploy"), func(path string, entry fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".yaml" && filepath.Base(filepath.Dir(path)) != "templates" {
			args = append(args, path)
		}
		return err
	})
	testenv.OK(t, err)
	r := execute(t, "", args...)
	if r.code != console.Done {
		t.Error(r.out, r.errors)
	}
	if count := strings.Count(r.out, ": ok, "); count < 17 {
		t.Errorf("%d configurations, want at least 17:\n%s", count, r.out)
	}
}

// TestShippedValues holds the configurations in the chart's values to be valid.
func TestShippedValues(t *testing.T) {
	t.Parallel()
	var names []string
	for _, pattern := range []string{"deploy/istio/*.yaml", "deploy/envoy-gateway/*.yaml"} {
		some, err := filepath.Glob(filepath.Join(testenv.Root(t), pattern))
		testenv.OK(t, err)
		names = append(names, some...)
	}
	configurations := 0
	for _, name := range names {
		text := testenv.Read(t, name)
		var values struct{ Config map[string]any }
		if err := yaml.Unmarshal(text, &values); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if values.Config == nil {
			continue // a relay
		}
		configurations++
		plugin, err := json.Marshal(values.Config)
		testenv.OK(t, err)
		if r := execute(t, string(plugin), "validate", "--strict", "-"); r.code != console.Done {
			t.Errorf("%s: %s", name, r.out)
		}
	}
	testenv.Same(t, "configurations", configurations, 7)
}

// wholeExample is a fenced block that is a whole file: JSON without a second
// word, which would say what part of a configuration it is, or YAML.
var wholeExample = regexp.MustCompile("(?ms)^```(json|yaml)\n(.*?)^```$")

// TestDocumentedExamples runs validate on every example of the documents.
func TestDocumentedExamples(t *testing.T) {
	t.Parallel()
	root, valid := testenv.Root(t), 0
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "deploy/*/*.md"} {
		pages, err := filepath.Glob(filepath.Join(root, pattern))
		testenv.OK(t, err)
		for _, page := range pages {
			text := testenv.Read(t, page)
			for _, block := range wholeExample.FindAllStringSubmatch(string(text), -1) {
				args := []string{"validate", "-"}
				if block[1] == "yaml" {
					args = append(args, "--if-present")
				}
				r := execute(t, block[2], args...)
				// The documents may be ahead of what this version can do.
				excused := strings.Contains(r.out, "is not available in this version") ||
					strings.Contains(r.out, "neither YAML nor JSON")
				if r.code != console.Done && !excused {
					t.Errorf("%s:\n%s\n%s", page, block[2], r.out)
				}
				valid += strings.Count(r.out, ": ok, ")
			}
		}
	}
	if valid < 20 {
		t.Errorf("only %d configurations in the documents", valid)
	}
}
