package config

import (
	"fmt"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/ipaddr"
)

const aLimit = `{"algorithm": "gcra", "limit": 10, "window": "1s"}`

// textFiles are examples of parts of configurations, each with what it is read as, and validFiles are whole
// configurations.
var (
	textFiles, _  = filepath.Glob("testdata/*.txt")
	validFiles, _ = filepath.Glob("testdata/valid/*.json")
)

var schema = jsonschema.NewCompiler().MustCompile("schema.json")

// validate is what the schema says of a text.
func validate(text string) error {
	instance, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(instance)
}

// TestValidExamples holds that the parser and the schema accept the same.
func TestValidExamples(t *testing.T) {
	t.Parallel()
	for _, name := range validFiles {
		text := testenv.Read(t, name)
		if _, err := Parse(text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := validate(string(text)); err != nil {
			t.Errorf("%s: the schema refuses it: %v", name, err)
		}
	}
}

// TestParse plays testdata/*.txt: each command is what a part of a configuration is, its input is
// the part, and its output is what is wrong with it, or else what is read where that is not as by default. A
// schema cannot express some mistakes. "go test ./plugin/config -run TestParse -rewrite" renews the outputs.
func TestParse(t *testing.T) {
	t.Parallel()
	for _, name := range textFiles {
		t.Run(filepath.Base(name), func(t *testing.T) {
			datadriven.RunTest(t, name, func(t *testing.T, d *datadriven.TestData) string {
				text, ok := testenv.WholeConfig(d.Cmd, d.Input)
				if !ok {
					t.Fatalf("%s: what is %q?", d.Pos, d.Cmd)
				}
				c, err := Parse([]byte(text))
				refused := validate(text)
				if err == nil {
					if refused != nil {
						t.Errorf("%s: the schema refuses it: %v", d.Pos, refused)
					}
					return strings.Join(showFields(reflect.ValueOf(*c)), "\n")
				}
				var out strings.Builder
				for _, mistake := range err.(Mistakes) {
					fmt.Fprintln(&out, strings.TrimPrefix(mistake.String(), "sluice: "))
				}
				if refused == nil {
					fmt.Fprintln(&out, "(the schema accepts it)")
				}
				return out.String()
			})
		})
	}
}

// byDefault is the configuration that the parts are put into.
var byDefault, _ = Parse([]byte(`{"rules": [{"name": "r", "limits": [` + aLimit + `]}]}`))

// defaults are what is not shown of some types, and words the values of others.
var (
	defaults = map[reflect.Type]any{
		reflect.TypeFor[Config]():    *byDefault,
		reflect.TypeFor[Rule]():      byDefault.Rules[0],
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
