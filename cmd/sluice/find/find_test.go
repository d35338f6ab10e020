package find

import (
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

const rules = `{"rules": [{"name": "a", "limits": []}]}`

// placed are files, and the configuration that is in each.
var placed = []struct {
	name, file, text string
	in               string // of the only configuration; "" if there is none
	line             int
	json             string
	others           int
}{
	{
		name: "plain JSON", file: "a.json", text: "\n" + rules,
		in: "JSON", line: 2, json: "\n" + rules,
	},
	{
		name: "a byte order mark", file: "a.json", text: "\ufeff" + rules,
		in: "JSON", line: 1, json: rules,
	},
	{
		name: "broken JSON", file: "a.json", text: `{"rules": [}`,
		in: "JSON", line: 1, json: `{"rules": [}`,
	},
	{
		name: "broken JSON from standard input", file: "-", text: ` {"rules": [,]}`,
		in: "JSON", line: 1, json: ` {"rules": [,]}`,
	},
	{
		name: "YAML", file: "a.yaml", text: "rules:\n- name: a\n  limits: []\n",
		in: "YAML", line: 1, json: `{"rules":[{"name":"a","limits":[]}]}`,
	},
	{
		name: "a role", file: "a.yaml", text: "role: bridge\n",
		in: "YAML", line: 1, json: `{"role":"bridge"}`,
	},
	{
		name: "a StringValue in double quotes", file: "a.yaml",
		text: filter("sluice", "StringValue", "value: "+strconv.Quote(rules)),
		in:   `Wasm filter "sluice"`, line: 6, json: rules,
	},
	{
		name: "a StringValue in single quotes", file: "a.yaml", text: filter("sluice", "StringValue", "value: '"+rules+"'"),
		in: `Wasm filter "sluice"`, line: 6, json: rules,
	},
	{
		name: "a BytesValue", file: "a.yaml", text: filter("sluice", "BytesValue", "value: e30="),
		in: `Wasm filter "sluice"`, line: 6, json: `{}`,
	},
	{
		name: "a Struct", file: "a.yaml", text: filter("sluice", "Struct", "value: {rules: [{name: a}]}"),
		in: `Wasm filter "sluice"`, line: 6, json: `{"rules":[{"name":"a"}]}`,
	},
	{
		name: "a filter of another name, known by its rules", file: "a.yaml",
		text: filter("limits", "StringValue", "value: '"+rules+"'"),
		in:   `Wasm filter "limits"`, line: 6, json: rules,
	},
	{
		name: "another plugin", file: "a.yaml", text: filter("waf", "StringValue", `value: '{"rules": ["SecRule"]}'`),
		others: 1,
	},
	{
		name: "our filter without a configuration", file: "a.yaml",
		text: "typed_config:\n  '@type': type.googleapis.com/" + filterType + "\n  config: {name: sluice}\n",
		in:   `Wasm filter "sluice"`, line: 3, json: "",
	},
	{
		name: "a TypedStruct", file: "a.yaml",
		text: "'@type': type.googleapis.com/xds.type.v3.TypedStruct\ntype_url: type.googleapis.com/" + filterType +
			"\nvalue:\n  config:\n    name: sluice\n    configuration: {'@type': " +
			"type.googleapis.com/google.protobuf.StringValue, value: '{}'}\n",
		in: `Wasm filter "sluice"`, line: 6, json: "{}",
	},
	{
		name: "the second document", file: "a.yaml",
		text: "kind: ConfigMap\n---\nkind: WasmPlugin\nmetadata: {name: sluice}\nspec:\n  pluginConfig:\n    rules: []\n",
		in:   `WasmPlugin "sluice"`, line: 7, json: `{"rules":[]}`,
	},
	{
		name: "a TrafficExtension", file: "a.yaml",
		text: "kind: TrafficExtension\nmetadata: {name: sluice}\nspec:\n  wasm:\n    pluginConfig:\n      rules: []\n",
		in:   `TrafficExtension "sluice"`, line: 6, json: `{"rules":[]}`,
	},
	{
		name: "an EnvoyExtensionPolicy", file: "a.yaml",
		text: "kind: EnvoyExtensionPolicy\nmetadata: {name: sluice}\nspec:\n  wasm:\n  - config: {rules: []}\n",
		in:   `EnvoyExtensionPolicy "sluice"`, line: 5, json: `{"rules":[]}`,
	},
	{
		name: "Envoy's file in a ConfigMap", file: "a.yaml",
		text: "kind: ConfigMap\ndata:\n  envoy.yaml: |" +
			strings.ReplaceAll("\n"+filter("sluice", "Struct", "value: {rules: []}"), "\n", "\n    "),
		in: `Wasm filter "sluice"`, line: 9, json: `{"rules":[]}`,
	},
	{
		name: "words that YAML 1.1 takes for booleans", file: "a.yaml",
		text: "rules:\n- {mode: off, a: On, b: 'off', c: oFF, d: NO}\n",
		in:   "YAML", line: 1, json: `{"rules":[{"mode":false,"a":true,"b":"off","c":"oFF","d":false}]}`,
	},
	{
		name: "numbers, null and an alias", file: "a.yaml", text: "rules: [1, 0x10, 1.5, null, &x 1s, *x, 2020-01-01]\n",
		in: "YAML", line: 1, json: `{"rules":[1,16,1.5,null,"1s","1s","2020-01-01"]}`,
	},
	{
		name: "nothing", file: "a.yaml", text: "kind: Deployment\n",
	},
}

func TestConfigurations(t *testing.T) {
	t.Parallel()
	for _, c := range placed {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found, others, err := Configurations(c.file, []byte(c.text))
			testenv.OK(t, err)
			if len(others) != c.others {
				t.Errorf("%d other plugins, want %d", len(others), c.others)
			}
			if c.in == "" {
				if len(found) > 0 {
					t.Errorf("found %v, want nothing", found)
				}
				return
			}
			if len(found) != 1 {
				t.Fatalf("%d configurations, want one", len(found))
			}
			got := found[0]
			if got.In != c.in {
				t.Errorf("in %s, want %s", got.In, c.in)
			}
			if got.Line != c.line {
				t.Errorf("line %d, want %d", got.Line, c.line)
			}
			if text := strings.TrimRight(string(got.JSON), "\n"); text != c.json {
				t.Errorf("JSON %s, want %s", text, c.json)
			}
		})
	}
}

// filter is a Wasm filter of Envoy with one configuration, on lines 5 and 6.
func filter(name, kind, value string) string {
	return "typed_config:\n  '@type': type.googleapis.com/" + filterType + "\n  config:\n    name: " + name +
		"\n    configuration: {'@type': type.googleapis.com/google.protobuf." + kind + ",\n      " + value + "}\n"
}

func TestLineOf(t *testing.T) {
	t.Parallel()
	block := "kind: WasmPlugin\nmetadata: {name: sluice}\nspec:\n  pluginConfig:\n    rules:\n    - name: a\n      " +
		"limits:\n" +
		"      - {limit: 1,\n         window: 10x}\n    - key: {\"a.b\": 1}\n      values:\n        \"a b\": 1\n"
	literal := "x:\n  '@type': type.googleapis.com/" + filterType + "\n  config:\n    name: sluice\n" +
		"    configuration:\n      '@type': type.googleapis.com/google.protobuf.StringValue\n      value: |\n" +
		"        {\n          \"rules\": [\n            {\"name\": \"a\"}\n          ]\n        }\n"
	for _, c := range []struct {
		name, file, text, path string
		want                   int
	}{
		{"the whole", "a.yaml", block, "", 5},
		{"a field", "a.yaml", block, "rules[0].limits[0].window", 9},
		{"an element", "a.yaml", block, "rules[1]", 10},
		{"a field that is missing", "a.yaml", block, "rules[1].name", 10},
		{"a name in brackets", "a.yaml", block, `rules[1].values["a b"]`, 12},
		{"an index too high", "a.yaml", block, "rules[7].name", 5},
		{"in a literal", "a.yaml", literal, "rules[0].name", 10},
		{"a syntax error in a literal", "a.yaml", literal, "line 3, column 5", 10},
		{"a syntax error", "a.json", "{\n\"rules\": [,]}", "line 2, column 11", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			found, _, err := Configurations(c.file, []byte(c.text))
			if err != nil || len(found) != 1 {
				t.Fatal(found, err)
			}
			if got := found[0].LineOf(c.path); got != c.want {
				t.Errorf("line %d, want %d", got, c.want)
			}
		})
	}
}

func TestNotYAML(t *testing.T) {
	t.Parallel()
	if _, _, err := Configurations("a.yaml", []byte("a: [")); err == nil {
		t.Error("no error")
	}
}
