package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// varying is what differs between mistakes of one kind: paths, quoted texts, lists of them, and numbers.
var varying = regexp.MustCompile(`rules(\["[^"]*"\]|[^ ,:])*|"(\\.|[^"\\])*"(\.\.\.)?(, "[^"]*")*|-?[0-9]+`)

// kindOf is a mistake without what varies.
func kindOf(problem string) string { return varying.ReplaceAllString(problem, "_") }

// beyondSchema are the kinds of mistakes that a schema cannot express, as it knows one value at a time, no
// order of durations and no case of header names: those of the examples that it accepts.
var beyondSchema = sync.OnceValue(func() map[string]bool {
	kinds := map[string]bool{}
	names, _ := filepath.Glob("testdata/*.txt")
	for _, name := range names {
		text, _ := os.ReadFile(name)
		for example := range strings.SplitSeq(string(text), "\n\n") {
			_, output, _ := strings.Cut(example, "\n----\n")
			mistakes, accepted := strings.CutSuffix(strings.TrimSpace(output), "\n(the schema accepts it)")
			for line := range strings.SplitSeq(mistakes, "\n") {
				if _, problem, ok := strings.Cut(line, ": "); ok && accepted {
					kinds[kindOf(problem)] = true
				}
			}
		}
	}
	return kinds
})

// agree reports where the parser and the schema disagree about a text.
func agree(t *testing.T, schema *jsonschema.Schema, text []byte) {
	t.Helper()
	config, err := Parse(text)
	if err == nil {
		for _, rule := range config.Rules { // the algorithms take what the parser accepts, other than calendar windows
			lists := [][]Limit{rule.Limits}
			if rule.Tiers != nil {
				for _, tier := range rule.Tiers.Values {
					lists = append(lists, tier.Limits)
				}
			}
			for _, list := range lists {
				var limits []algo.Limit
				for _, limit := range list {
					if limit.Calendar == nil {
						limits = append(limits, limit.Limit)
					}
				}
				if _, err := algo.NewPlan(limits); err != nil && len(limits) > 0 {
					t.Errorf("%+v: %v", limits, err)
				}
			}
		}
	}
	refused := validate(schema, text)
	if err == nil && refused != nil {
		t.Errorf("%s\nonly the schema refuses it: %v", text, refused)
	}
	if err == nil || refused != nil {
		return
	}
	for _, mistake := range err.(Mistakes) {
		if !beyondSchema()[kindOf(mistake.Problem)] {
			t.Errorf("%s\nonly the parser refuses it: %s", text, mistake)
		}
	}
}

// TestMutatedExamples changes every value of every valid example in turn and
// holds that the parser and the schema agree about what comes of it.
func TestMutatedExamples(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t)
	mutants, stride := 0, testenv.Stride()
	for _, text := range readFiles(t, "testdata/valid/*.json") {
		// Small configurations are quick to check: the first has a plain rule and the other fields, each other one of
		// the rules.
		var whole map[string]any
		decoder := json.NewDecoder(bytes.NewReader(text))
		decoder.UseNumber()
		if err := decoder.Decode(&whole); err != nil {
			t.Fatal(err)
		}
		all := []any{whole}
		rules, ok := whole["rules"].([]any)
		if ok {
			whole["rules"] = []any{map[string]any{"name": "plain", "exempt": true}}
		}
		for _, rule := range rules {
			all = append(all, map[string]any{"rules": []any{rule}})
		}
		for _, root := range all {
			mutate(root, func(mutant any) { root = mutant }, func() {
				mutants++
				if mutants%stride != 0 {
					return
				}
				mutated, err := json.Marshal(root)
				if err != nil {
					t.Fatal(err)
				}
				agree(t, schema, mutated)
			})
		}
	}
	if mutants < 5_000 {
		t.Errorf("only %d mutants", mutants)
	}
}

var replacements = []any{
	nil, true, false, "", "x", "/x", "1s", -1, 0, 1, 1.5, 1e10,
	[]any{},
	[]any{"x"},
	map[string]any{},
	map[string]any{"x": 1},
}

// mutate calls check after each change to the value at set, or to one in it,
// and undoes the change.
func mutate(value any, set func(any), check func()) {
	for _, other := range replacements {
		set(other)
		check()
	}
	set(value)
	switch value := value.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(value)) {
			field := value[name]
			delete(value, name)
			check()
			value[name+"x"] = field
			check()
			delete(value, name+"x")
			mutate(field, func(other any) { value[name] = other }, check)
		}
	case []any:
		set(append(value[:len(value):len(value)], value...))
		check()
		set(value)
		for i, element := range value {
			mutate(element, func(other any) { value[i] = other }, check)
		}
	}
}

// TestSchemaDocumentsItself holds that each field has a description, and that
// examples and defaults are valid themselves.
func TestSchemaDocumentsItself(t *testing.T) {
	t.Parallel()
	var root map[string]any
	if err := json.Unmarshal(readFiles(t, "schema.json")["schema.json"], &root); err != nil {
		t.Fatal(err)
	}
	compiler := jsonschema.NewCompiler()
	examples := 0
	walkSchema(root, "", func(node map[string]any, pointer string) {
		of, ok := node["examples"].([]any)
		if byDefault, has := node["default"]; has {
			of, ok = append(of, byDefault), true
		}
		fields, _ := node["properties"].(map[string]any)
		for name, field := range fields {
			field, isSchema := field.(map[string]any)
			undescribed := isSchema && field["$ref"] == nil && field["description"] == nil
			if undescribed && !condition.MatchString(pointer) {
				t.Errorf("%s/properties/%s has no description", pointer, name)
			}
		}
		if !ok {
			return
		}
		schema, err := compiler.Compile("schema.json#" + pointer)
		if err != nil {
			t.Fatal(err)
		}
		for _, example := range of {
			examples++
			if err := schema.Validate(example); err != nil {
				t.Errorf("%s: example %v: %v", pointer, example, err)
			}
		}
	})
	if examples < 50 {
		t.Errorf("only %d examples", examples)
	}
}

// condition is where a schema tells which fields go together, which needs no
// description.
var condition = regexp.MustCompile(`/(if|then|else|not|allOf|anyOf)(/|$)`)

// walkSchema visits a schema and the schemas in it, whatever keyword they stand
// under.
func walkSchema(node any, pointer string, visit func(map[string]any, string)) {
	switch node := node.(type) {
	case map[string]any:
		visit(node, pointer)
		for name, child := range node {
			if !slices.Contains([]string{"examples", "default", "const", "enum"}, name) {
				walkSchema(child, pointer+"/"+name, visit)
			}
		}
	case []any:
		for i, child := range node {
			walkSchema(child, pointer+"/"+string(rune('0'+i)), visit)
		}
	}
}

// hugeExponent keeps numbers out of the fuzzing of the schema that its
// validator would write out in full.
var hugeExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4}`)

// FuzzParse holds that no text makes the parser panic, that a refused text
// names a mistake, and that the schema refuses none that the parser accepts.
func FuzzParse(f *testing.F) {
	for _, text := range readFiles(f, "testdata/valid/*.json") {
		f.Add(text)
	}
	for name := range readFiles(f, "testdata/*.txt") {
		datadriven.RunTestAny(f, name, func(_ testing.TB, d *datadriven.TestData) string {
			text, _ := whole(d.Cmd, []byte(d.Input))
			f.Add(text)
			return d.Expected
		})
	}
	f.Add([]byte(nested(maxNesting)))
	schema := compileSchema(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		config, err := Parse(text)
		if (config == nil) == (err == nil) {
			t.Fatalf("Parse returned %v and %v", config, err)
		}
		if err == nil && !hugeExponent.Match(text) {
			agree(t, schema, bytes.TrimPrefix(text, []byte("\ufeff")))
		}
	})
}
