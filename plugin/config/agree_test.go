package config

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/tidwall/gjson"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// varying is what differs between mistakes of one kind: paths, quoted texts, lists of them, and numbers.
var varying = regexp.MustCompile(`rules(\["[^"]*"\]|[^ ,:])*|"(\\.|[^"\\])*"(\.\.\.)?(, "[^"]*")*|-?[0-9]+`)

// beyondSchema are the kinds of mistakes that a schema cannot express, as it knows one value at a time, no
// order of durations and no case of header names: those of the examples that it accepts.
var beyondSchema = sync.OnceValue(func() map[string]bool {
	kinds := map[string]bool{}
	for _, name := range textFiles {
		text, _ := os.ReadFile(name)
		for example := range strings.SplitSeq(string(text), "\n\n") {
			_, output, _ := strings.Cut(example, "\n----\n")
			mistakes, accepted := strings.CutSuffix(strings.TrimSpace(output), "\n(the schema accepts it)")
			for line := range strings.SplitSeq(mistakes, "\n") {
				if _, problem, ok := strings.Cut(line, ": "); ok && accepted {
					kinds[varying.ReplaceAllString(problem, "_")] = true
				}
			}
		}
	}
	return kinds
})

// agree reports where the parser and the schema disagree about a text.
func agree(t *testing.T, text string) {
	t.Helper()
	config, err := Parse([]byte(text))
	refused := validate(text)
	if err == nil && refused != nil {
		t.Errorf("%s\nonly the schema refuses it: %v", text, refused)
	}
	if err == nil {
		for i := range config.Rules { // the algorithms take what the parser accepts, other than calendar windows
			for _, list := range config.Rules[i].Lists {
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
	if err == nil || refused != nil {
		return
	}
	for _, mistake := range err.(Mistakes) {
		if !beyondSchema()[varying.ReplaceAllString(mistake.Problem, "_")] {
			t.Errorf("%s\nonly the parser refuses it: %s", text, mistake)
		}
	}
}

// TestMutatedExamples changes every value of every valid example in turn and
// holds that the parser and the schema agree about what comes of it.
func TestMutatedExamples(t *testing.T) {
	t.Parallel()
	mutants, stride := 0, testenv.Stride()
	for _, name := range validFiles {
		// Small configurations are quick to check: the first has a plain rule and the other fields, each other one of
		// the rules.
		var whole map[string]any
		decoder := json.NewDecoder(bytes.NewReader(testenv.Read(t, name)))
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
				agree(t, string(mutated))
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
	paths := []string{""}
	gjson.GetBytes(testenv.Read(t, "schema.json"), "$defs").ForEach(func(name, _ gjson.Result) bool {
		paths = append(paths, "$defs."+name.Str)
		return true
	})
	for _, table := range tables {
		for i := range table.fields {
			paths = append(paths, place(table.schema, table.fields[i].name))
		}
	}
	compiler, examples := jsonschema.NewCompiler(), 0
	for _, path := range paths {
		node, err := compiler.Compile("schema.json#" + strings.TrimSuffix(strings.ReplaceAll("."+path, ".", "/"), "/"))
		if err != nil {
			t.Fatal(err)
		}
		if isField := strings.Contains(path, "properties."); isField && node.Description == "" && node.Ref == nil {
			t.Errorf("%s has no description", path)
		}
		all := node.Examples
		if node.Default != nil {
			all = append(all, *node.Default)
		}
		for _, example := range all {
			examples++
			if err := node.Validate(example); err != nil {
				t.Errorf("%s: example %v: %v", path, example, err)
			}
		}
	}
	if examples < 50 {
		t.Errorf("only %d examples", examples)
	}
}

// hugeExponent keeps numbers out of the fuzzing of the schema that its
// validator would write out in full.
var hugeExponent = regexp.MustCompile(`[eE][+-]?[0-9]{4}`)

// FuzzParse holds that no text makes the parser panic, that a refused text
// names a mistake, and that the schema refuses none that the parser accepts.
func FuzzParse(f *testing.F) {
	for _, name := range validFiles {
		f.Add(testenv.Read(f, name))
	}
	for _, name := range textFiles {
		datadriven.RunTestAny(f, name, func(_ testing.TB, d *datadriven.TestData) string {
			text, _ := testenv.WholeConfig(d.Cmd, d.Input)
			f.Add([]byte(text))
			return d.Expected
		})
	}
	f.Add([]byte(nested(maxNesting)))
	f.Fuzz(func(t *testing.T, text []byte) {
		config, err := Parse(text)
		if (config == nil) == (err == nil) {
			t.Fatalf("Parse returned %v and %v", config, err)
		}
		if err == nil && !hugeExponent.Match(text) {
			agree(t, strings.TrimPrefix(string(text), "\ufeff"))
		}
	})
}
