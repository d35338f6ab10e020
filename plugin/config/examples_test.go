package config

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/ipaddr"
)

const aLimit = `{"algorithm": "gcra", "limit": 10, "window": "1s"}`

// whole completes a part to a configuration.
func whole(kind string, part []byte) ([]byte, bool) {
	text, ok := testenv.WholeConfig(kind, string(part))
	return []byte(text), ok
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

// TestParse plays testdata/*.txt: each command is what a part of a configuration is, its input is
// the part, and its output is what is wrong with it, or else what is read. A schema cannot express
// some mistakes. "go test ./plugin/config -run TestParse -rewrite" renews the outputs.
func TestParse(t *testing.T) {
	t.Parallel()
	schema := compileSchema(t)
	for _, name := range slices.Sorted(maps.Keys(readFiles(t, "testdata/*.txt"))) {
		t.Run(filepath.Base(name), func(t *testing.T) {
			datadriven.RunTest(t, name, func(t *testing.T, d *datadriven.TestData) string {
				text, ok := whole(d.Cmd, []byte(d.Input))
				if !ok {
					t.Fatalf("%s: what is %q?", d.Pos, d.Cmd)
				}
				c, err := Parse(text)
				refused := validate(schema, text)
				if err == nil && refused != nil {
					t.Errorf("%s: the schema refuses it: %v", d.Pos, refused)
				}
				if err == nil {
					return strings.Join(readAs(d.Cmd, c), "\n")
				}
				lines := mistakeLines(text)
				if refused == nil {
					lines = append(lines, "(the schema accepts it)")
				}
				return strings.Join(lines, "\n")
			})
		})
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

// readAs shows what a part of a configuration is read as, in lines.
func readAs(kind string, c *Config) (lines []string) {
	r := &c.Rules[0]
	part := map[string]any{
		"limits": r.Limits, "limit": r.Limits, "match": r.Match, "key": r.Key, "component": r.Key, "penalty": r.Penalty,
		"settle": r.Settle, "cost": r.Cost, "rule": c.Rules,
	}[kind]
	if kind == "fields" || kind == "config" {
		top := *c
		top.Rules = defaults[reflect.TypeFor[Config]()].(Config).Rules
		lines = showFields(reflect.ValueOf(top))
	}
	switch kind {
	case "fields":
		return lines
	case "config":
		part = c.Rules
	}
	if v := reflect.ValueOf(part); v.Kind() == reflect.Slice {
		for i := range v.Len() {
			lines = append(lines, show(v.Index(i)))
		}
		return lines
	}
	return append(lines, show(reflect.ValueOf(part)))
}

// defaults are what is not shown of some types, and words the values of others.
var (
	defaults = map[reflect.Type]any{
		reflect.TypeFor[Config](): func() Config {
			c, err := Parse([]byte(`{"rules": [{"name": "r", "limits": [` + aLimit + `]}]}`))
			if err != nil {
				panic(err)
			}
			return *c
		}(),
		reflect.TypeFor[Component](): Component{V4Prefix: 32, V6Prefix: 128},
	}
	words = map[reflect.Type][]string{
		reflect.TypeFor[Mode]():           modes,
		reflect.TypeFor[Period]():         periods,
		reflect.TypeFor[MatchOp]():        namesOf(opFields),
		reflect.TypeFor[Source]():         namesOf(sourceFields),
		reflect.TypeFor[ExpressionKind](): {"bool", "text", "number"},
	}
)

// show writes a value as Go has it, without what is as by default.
func show(v reflect.Value) string {
	if names := words[v.Type()]; names != nil {
		return names[v.Uint()]
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "nil"
		}
		return show(v.Elem())
	case reflect.Slice, reflect.Array:
		var all []string
		for i := range v.Len() {
			all = append(all, show(v.Index(i)))
		}
		return "[" + strings.Join(all, ", ") + "]"
	case reflect.Struct:
		if prefix, ok := v.Interface().(ipaddr.Prefix); ok {
			return fmt.Sprintf("%s/%d", prefix.Addr.AppendTo(nil), prefix.Bits)
		}
		return "{" + strings.Join(showFields(v), ", ") + "}"
	case reflect.String:
		return fmt.Sprintf("%q", v.Interface())
	}
	return fmt.Sprint(v.Interface())
}

func showFields(v reflect.Value) (all []string) {
	byDefault := reflect.Zero(v.Type())
	if other, ok := defaults[v.Type()]; ok {
		byDefault = reflect.ValueOf(other)
	}
	for i := range v.NumField() {
		field, at := v.Type().Field(i), v.Field(i)
		switch {
		case reflect.DeepEqual(at.Interface(), byDefault.Field(i).Interface()):
		case field.Anonymous:
			all = append(all, showFields(at)...)
		default:
			all = append(all, field.Name+": "+show(at))
		}
	}
	return all
}
