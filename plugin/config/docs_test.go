package config

import (
	"cmp"
	"encoding/json"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// blocks finds the fenced JSON of a page. A block whose info string has a second
// word is a part of a configuration, and the word says of what kind; "other"
// marks JSON that has nothing to do with the configuration.
var blocks = regexp.MustCompile("(?ms)^```json *(\\w*)$\n(.*?)^```$")

// TestDocumentedExamples loads every example of the documentation.
func TestDocumentedExamples(t *testing.T) {
	t.Parallel()
	examples := 0
	for _, pattern := range []string{"../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../deploy/*/*.md"} {
		names, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			page := testenv.Read(t, name)
			found := blocks.FindAllSubmatch(page, -1)
			if strings.Count("\n"+string(page), "\n```json") != len(found) {
				t.Errorf("%s has a block of JSON without end, or with an info string like none here", name)
			}
			examples += len(found)
			for _, block := range found {
				kind, part := cmp.Or(string(block[1]), "config"), string(block[2])
				if kind == "other" {
					if !json.Valid(block[2]) {
						t.Errorf("%s: not JSON:\n%s", name, part)
					}
					continue
				}
				text, ok := testenv.WholeConfig(kind, part)
				if !ok {
					t.Errorf("%s: what is %q? Say \"other\" for what is no part of a configuration", name, kind)
					continue
				}
				if _, err := Parse([]byte(text)); err != nil {
					t.Errorf("%s:\n%s\n%v", name, part, err)
				}
				agree(t, text)
			}
		}
	}
	if examples < 40 {
		t.Errorf("only %d examples", examples)
	}
}

// TestDocumentedErrors holds the messages that the page shows to be those
// that are given.
func TestDocumentedErrors(t *testing.T) {
	t.Parallel()
	const reference = "../../docs/expressions.md"
	_, err := Parse([]byte(`{"rules": [
		{"name": "a", "exempt": true},
		{"name": "b", "limts": [], "limits": [{"algorithm": "gcra", "limit": 1, "window": "10x"}]},
		{"exempt": true}]}`))
	page := string(testenv.Read(t, reference))
	for _, line := range strings.Split(err.Error(), "\n") {
		if !strings.Contains(page, line+"\n") {
			t.Errorf("%s does not show %s", reference, line)
		}
	}
}
