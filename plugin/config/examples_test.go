package config

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

const aLimit = `{"algorithm": "gcra", "limit": 10, "window": "1s"}`

// wholes make a configuration of a part of one, by what the part is.
var wholes = map[string]string{
	"config":    `%s`,
	"rule":      `{"rules": [%s]}`,
	"limits":    `{"rules": [{"name": "r", "limits": %s}]}`,
	"limit":     `{"rules": [{"name": "r", "limits": [%s]}]}`,
	"match":     `{"rules": [{"name": "r", "limits": [` + aLimit + `], "match": %s}]}`,
	"key":       `{"rules": [{"name": "r", "limits": [` + aLimit + `], "key": %s}]}`,
	"component": `{"rules": [{"name": "r", "limits": [` + aLimit + `], "key": [%s]}]}`,
	"penalty":   `{"rules": [{"name": "r", "limits": [` + aLimit + `], "penalty": %s}]}`,
	"settle":    `{"rules": [{"name": "r", "limits": [` + aLimit + `], "settle": %s}]}`,
	"cost": `{"rules": [{"name": "r", "limits": [{"algorithm": "gcra", "limit": 1000000, "window": "1s"}], ` +
		`"cost": %s}]}`,
}

// whole completes a part to a configuration. Of kind "fields" it is an object
// of top-level fields.
func whole(kind string, part []byte) ([]byte, bool) {
	if kind == "fields" {
		fields, ok := bytes.CutPrefix(bytes.TrimSpace(part), []byte("{"))
		return fmt.Appendf(nil, `{"rules": [{"name": "r", "limits": [%s]}], %s`, aLimit, fields), ok
	}
	format, ok := wholes[kind]
	return fmt.Appendf(nil, format, part), ok
}

func compileSchema(t testing.TB) *jsonschema.Schema {
	t.Helper()
	schema, err := jsonschema.NewCompiler().Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validate(schema *jsonschema.Schema, text []byte) error {
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(instance)
}

func readFiles(t testing.TB, pattern string) map[string][]byte {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		if files[name], err = os.ReadFile(name); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// TestValidExamples holds that the parser and the schema accept the same.
func TestValidExamples(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t)
	for name, text := range readFiles(t, "testdata/valid/*.json") {
		if _, err := Parse(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := validate(schema, text); err != nil {
			t.Errorf("%s: the schema refuses it: %v", name, err)
		}
	}
}

// invalidExample is one element of testdata/invalid/*.json: a part of a
// configuration under what it is, and all that is wrong with it.
type invalidExample struct {
	text     []byte
	mistakes []string
	// beyondSchema names what a schema cannot express, where the example is
	// wrong in no other way.
	beyondSchema string
}

func invalidExamples(t testing.TB, file []byte) []invalidExample {
	t.Helper()
	var elements []map[string]json.RawMessage
	if err := json.Unmarshal(file, &elements); err != nil {
		t.Fatal(err)
	}
	var examples []invalidExample
	for i, element := range elements {
		var e invalidExample
		for kind, part := range element {
			var err error
			switch kind {
			case "mistakes":
				err = json.Unmarshal(part, &e.mistakes)
			case "beyond_schema":
				err = json.Unmarshal(part, &e.beyondSchema)
			default:
				var ok bool
				if e.text, ok = whole(kind, part); !ok {
					err = fmt.Errorf("what is %q?", kind)
				}
			}
			if err != nil {
				t.Fatalf("example %d: %v", i, err)
			}
		}
		examples = append(examples, e)
	}
	return examples
}

// TestInvalidExamples holds every message, and that the schema refuses the same
// but for what it cannot express.
func TestInvalidExamples(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t)
	for name, file := range readFiles(t, "testdata/invalid/*.json") {
		for _, e := range invalidExamples(t, file) {
			if got := mistakeLines(e.text); !slices.Equal(got, e.mistakes) {
				t.Errorf("%s: %s\ngot\n%s\nwant\n%s", name, e.text, strings.Join(got, "\n"), strings.Join(e.mistakes, "\n"))
			}
			if refused := validate(schema, e.text) != nil; refused != (e.beyondSchema == "") {
				t.Errorf("%s: %s\nrefused by the schema: %v, beyond it: %q", name, e.text, refused, e.beyondSchema)
			}
		}
	}
}

// mistakeLines are the mistakes that Parse finds, without the common prefix.
func mistakeLines(text []byte) []string {
	_, err := Parse(text)
	var mistakes Mistakes
	errors.As(err, &mistakes)
	var lines []string
	for _, mistake := range mistakes {
		lines = append(lines, strings.TrimPrefix(mistake.String(), "sluice: "))
	}
	return lines
}
