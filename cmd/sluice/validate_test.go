package main

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

const aLimit = `{"algorithm": "gcra", "limit": 10, "window": "1s"}`

// validated are texts, and what validate prints of each.
var validated = []struct {
	name, in  string
	ifPresent bool
	code      int
	out       string
}{
	{
		name: "valid", in: `{"rules": [{"name": "a", "limits": [` + aLimit + `]}]}`,
		out: "-:1: ok, JSON: 1 rule\n",
	},
	{
		name: "a rule that some requests skip",
		in:   "{\"rules\": [\n{\"name\": \"a\",\n\"key\": [{\"header\": \"x-team\"}], \"limits\": [" + aLimit + "]}]}",
		out: "-:1: ok, JSON: 1 rule\n" + `-:3: note: rule "a": without the header "x-team" the rule is skipped: the ` +
			`request is not limited by it` +
			` (a "default" in the key, or a rule for such requests, limits them)` + "\n",
	},
	{
		name: "one rule, in shadow", in: `{"mode": "shadow", "rules": [{"name": "a", "limits": [` + aLimit + `]}]}`,
		out: "-:1: ok, JSON: 1 rule, all in shadow\n",
	},
	{
		name: "two rules, in shadow",
		in:   `{"mode": "shadow", "rules": [{"name": "a", "exempt": true}, {"name": "b", "limits": [` + aLimit + `]}]}`,
		out:  "-:1: ok, JSON: 2 rules, all in shadow\n",
	},
	{
		name: "a role", in: `{"role": "limiter", "rules": [{"name": "a", "exempt": true}]}`, code: console.Refused,
		out: "-:1: role: the plugin has no roles (want no such field; the bridge in Redis' cluster is bridge/bridge.wasm)\n",
	},
	{
		name: "two mistakes", in: "{\"rules\": [\n{\"name\": \"a\",\n\"limits\": [{\"algorithm\": \"gcra\", \"limit\": " +
			"1,\n\"window\": \"10x\"}]},\n{}]}",
		code: console.Refused,
		out: `-:4: rules[0].limits[0].window: "10x" is not a duration (want one such as "500ms", "1s", "1m", "1h", "1d")` +
			"\n" +
			`-:5: rules[1]: "name" is missing (want one such as "per-user")` + "\n",
	},
	{
		name: "broken JSON", in: "{\"rules\": [\n,]}",
		code: console.Refused, out: "-:2: line 2, column 1: unexpected ','",
	},
	{
		name: "nothing of Sluice's, but JSON", in: `{"rulez": []}`,
		code: console.Refused, out: `-:1: rulez: unknown field (did you mean "rules"?)`,
	},
	{
		name: "nothing of Sluice's", in: "kind: Deployment",
		code: console.Refused, out: `-: no configuration of Sluice (want JSON with "rules"`,
	},
	{
		name: "nothing of Sluice's, accepted", in: "kind: Deployment", ifPresent: true,
	},
	{
		name: "not YAML", in: "a: [",
		code: console.Refused, out: "-: neither YAML nor JSON: line 1:",
	},
	{
		name: "a template", in: "a: 1\n{{- if .Values.x }}\nb: 1\n{{- end }}\n", ifPresent: true,
		code: console.Done, out: "-: note: passed over, neither YAML nor JSON: ",
	},
	{
		name: "an editor's settings", in: "{// a comment\n\"a\": 1}", ifPresent: true,
		code: console.Done, out: "-: note: passed over, not JSON\n",
	},
	{
		name: "a broken configuration", in: `{"rules": [}`, ifPresent: true,
		code: console.Refused, out: "-:1: ",
	},
	{
		name: "no CEL", in: `{"rules": [{"name": "a", "match": {"expr": "request.method =="}, ` +
			`"key": [{"expr": "upper('a')"}], "limits": [` + aLimit + `]}]}`,
		code: console.Refused,
		out: `-:1: rules[0].match.expr: "request.method ==" is not an expression that Envoy compiles: at 1:18: Syntax ` +
			`error: mismatched input '<EOF>' (want CEL such as "request.method == 'POST'")` + "\n" +
			`-:1: rules[0].key[0].expr: "upper('a')" is not an expression that Envoy compiles: there is no function upper ` +
			`(want CEL such as "request.method == 'POST'")` + "\n",
	},
	{
		name: "no filter for a password", in: `{"redis": {"cluster": "r", "password": 123456789}, "rules": []}`,
		code: console.Refused, out: "-:1: redis.password: ",
	},
}

func TestValidate(t *testing.T) {
	t.Parallel()
	for _, c := range validated {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := []string{"validate", "-"}
			if c.ifPresent {
				args = append(args, "--if-present")
			}
			r := execute(t, c.in, args...)
			if r.code != c.code {
				t.Errorf("exit code %d, want %d", r.code, c.code)
			}
			if !strings.Contains(r.out, c.out) {
				t.Errorf("output\n%s, want\n%s", r.out, c.out)
			}
			if strings.Contains(r.out, "123456789") {
				t.Errorf("the output has a secret: %s", r.out)
			}
		})
	}
}

func TestValidateJSON(t *testing.T) {
	t.Parallel()
	good := write(t, "good.json", `{"rules": [{"name": "a", "limits": [`+aLimit+`]}]}`)
	bad := write(t, "bad.json", `{"rules": [{"limits": [`+aLimit+`]}]}`)
	r := execute(t, "", "validate", "-o", "json", good, bad)
	if r.code != console.Refused {
		t.Errorf("exit code %d, want %d", r.code, console.Refused)
	}
	got := decode[validation](t, r)
	if got.Mistakes != 1 || len(got.Files) != 2 {
		t.Fatalf("%d mistakes in %d files, want 1 in 2", got.Mistakes, len(got.Files))
	}
	c := got.Files[0].Configurations[0]
	testenv.Same(t, "the good file's role", c.Role, "limiter")
	testenv.Same(t, "its number of rules", c.Rules, 1)
	testenv.Same(t, "its number of mistakes", len(c.Mistakes), 0)
	want := mistakeReport{1, "rules[0]", `"name" is missing (want one such as "per-user")`}
	if c := got.Files[1].Configurations[0]; len(c.Mistakes) != 1 || c.Mistakes[0] != want {
		t.Errorf("the bad file: %+v, want %+v", c.Mistakes, want)
	}
}

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
	if err != nil {
		t.Fatal(err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, some...)
	}
	configurations := 0
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var values struct{ Config map[string]any }
		if err := yaml.Unmarshal(text, &values); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if values.Config == nil {
			continue // a relay
		}
		configurations++
		plugin, err := json.Marshal(values.Config)
		if err != nil {
			t.Fatal(err)
		}
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
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
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
