package scenario

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// Store is where limits are counted.
type Store string

// The stores.
const (
	Redis Store = "redis"
	Local Store = "local" // the embedded store
)

// Surroundings are what may be around the limiter, by the names that with=(...) has.
var Surroundings = map[string]string{
	"raw-paths":   "Envoy leaves paths as clients write them",
	"trusted-hop": "one proxy in front: the client's address is the last one in x-forwarded-for",
	"trusting":    "use_remote_address is not set, which is Envoy's default",
	"claims":      "a filter has left metadata, as jwt_authn and mcp do",
	"usage":       "a filter has left what a language model was asked for and has used, as ai_protocol_manager does",
	"tenant":      "a filter leaves x-tenant as the metadata tenants, name",
	"economy":     "requests with x-quota take a route whose answer is 202",
	"secret":      "the environment has SLUICE_HASH_SECRET, 0123456789abcdef and an end of line; virtual only",
}

// Claims is the metadata that with=claims leaves.
func Claims() (metadata map[string]any) {
	const text = `{
		"envoy.filters.http.jwt_authn": {"payload": {"sub": "ann", "tier": 2, "limit": 5, "cost": 2.7, "text": "3",
			"plan": "pro", "staff": true, "huge": 1e300, "below": -1}},
		"envoy.filters.http.mcp": {"method": "tools/call", "params": {"name": "search"}},
		"usage": {"negative": -5, "huge": 1e300, "beyond": 9223372036854775808, "text": "many", "empty": "",
			"digits": "12", "fraction": 2.5, "no": false, "nested": {"tokens": 3}, "nan": "NaN",
			"infinity": "Infinity", "zero": 0}}`
	if err := json.Unmarshal([]byte(text), &metadata); err != nil {
		panic(err)
	}
	return metadata
}

// Usage is the metadata that with=usage leaves: Envoy's own of each type, and what json_to_metadata has of "n".
func Usage() (typed, untyped map[string]any) {
	typed = map[string]any{
		"envoy.ai.request_info": map[string]any{
			"model": "gpt", "estimated_input_tokens": 20.0, "max_output_tokens": 1000.0,
		},
		"envoy.ai.token_usage": map[string]any{
			"input_tokens": 1000.0, "output_tokens": 100.0, "total_tokens": 1100.0,
			"input_token_details": map[string]any{"cached_tokens": 400.0},
		},
	}
	return typed, map[string]any{"openai": map[string]any{"n": 1.0}}
}

// Has reports whether a surrounding is there.
func (c *Config) Has(surrounding string) bool { return slices.Contains(c.With, surrounding) }

// Rewriting says that the outputs are to be renewed.
func Rewriting() bool { return flag.Lookup("rewrite").Value.String() == "true" }

// File is one file of scenarios.
type File struct {
	Name    string // without directory and extension
	Configs []*Config

	path string
}

// Config is the configuration of one scenario in one store.
type Config struct {
	Name  string // its own in all files
	Store Store
	With  []string // Surroundings
	// Prefix begins the keys in Redis.
	Prefix  string
	Virtual bool
	Bursts  bool // requests come at once

	noSeconds bool
	members   string // of the configuration, without the brace that opens it
	number    int    // of the scenario, in its file
}

// New is the configuration of a test in Go that shares an Envoy as scenarios do. The input is what a
// block "config" has. Those of the embedded store share its memory, and so need rules of their own.
func New(t *testing.T, name string, store Store, input string) *Config {
	t.Helper()
	members := strings.TrimPrefix(configurationOf(t, name, input), "{")
	return &Config{Name: name, Store: store, Prefix: "rl-" + name, members: members}
}

// has reports whether the configuration has a member.
func (c *Config) has(name string) bool {
	var members map[string]json.RawMessage
	_ = json.Unmarshal([]byte("{"+c.members), &members) // Load finds mistakes
	return members[name] != nil
}

// JSON is the configuration as the plugin reads it.
func (c *Config) JSON() string {
	text := "{"
	if c.Store == Redis && !c.has("redis") {
		text += fmt.Sprintf(`"redis": {"cluster": "redis", "timeout": "10s", "key_prefix": %q}, `, c.Prefix)
		if !c.has("failure") {
			text += `"failure": {"mode": "deny"}, `
		}
	}
	return text + c.members
}

// Files reads all files.
func Files(t *testing.T) (files []*File) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(testenv.Root(t), "internal/scenario/testdata/*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	rules := map[string]string{} // where they are, by name
	for _, path := range paths {
		f := &File{Name: strings.TrimSuffix(filepath.Base(path), ".txt"), path: path}
		f.read(t, rules)
		files = append(files, f)
	}
	return files
}

// burst matches a line for many requests at once.
var burst = regexp.MustCompile(`(?m)^(\d+)x (.*)`)

// virtualAlone are the commands that an Envoy cannot play.
var virtualAlone = []string{"fault", "log", "metrics"}

// read finds the configurations.
func (f *File) read(t *testing.T, rules map[string]string) {
	t.Helper()
	text, err := os.ReadFile(f.path)
	if err != nil {
		t.Fatal(err)
	}
	datadriven.RunTestFromString(t, string(text), func(t *testing.T, d *datadriven.TestData) string {
		t.Helper()
		if d.Cmd == "config" {
			f.add(t, d, rules)
		}
		if d.Cmd == "request" && burst.MatchString(d.Input) {
			last := f.Configs[len(f.Configs)-1].number
			for _, c := range f.Configs {
				c.Bursts = c.Bursts || c.number == last
			}
		}
		isVirtual := len(f.Configs) > 0 && f.Configs[len(f.Configs)-1].Virtual
		passes := strings.Contains(strings.ReplaceAll("\n"+d.Input+"\n", "\ntime 1s\n", "\n"), "\ntime ")
		if !isVirtual && (slices.Contains(virtualAlone, d.Cmd) || passes ||
			slices.ContainsFunc(d.CmdArgs, func(arg datadriven.CmdArg) bool {
				return slices.Contains(arg.Vals, "rejected") || slices.Contains(arg.Vals, "sent")
			})) {
			t.Fatalf("%s: a scenario with this command or argument, or in which more than a second passes, is virtual", f.at(d))
		}
		return d.Expected
	})
}

func (f *File) add(t *testing.T, d *datadriven.TestData, rules map[string]string) {
	t.Helper()
	at := f.at(d)
	c := Config{number: 1, members: strings.TrimPrefix(configurationOf(t, at, d.Input), "{")}
	if n := len(f.Configs); n > 0 {
		c.number = f.Configs[n-1].number + 1
	}
	stores := []Store{Redis, Local}
	for _, arg := range d.CmdArgs {
		switch {
		case arg.Key == "virtual":
			c.Virtual = true
		case arg.Key == "no-seconds":
			c.noSeconds = true
		case arg.Key == "store" && len(arg.Vals) == 1 && slices.Contains(stores, Store(arg.Vals[0])):
			stores = []Store{Store(arg.Vals[0])}
		case arg.Key == "with":
			c.With = arg.Vals
		default:
			t.Fatalf("%s: what is %q?", at, arg.String())
		}
	}
	for _, w := range c.With {
		if Surroundings[w] == "" {
			t.Fatalf("%s: with=%s: want one of %q", at, w, slices.Sorted(maps.Keys(Surroundings)))
		}
	}
	for _, name := range ruleNames(c.members) {
		if first := rules[name]; first != "" {
			t.Fatalf("%s: the scenario at %s has a rule %q, too", at, first, name)
		}
		rules[name] = at
	}
	for _, store := range stores {
		one := c
		one.Name = fmt.Sprintf("%s-%d-%s", f.Name, c.number, store)
		one.Prefix, one.Store = "rl-"+one.Name, store
		if one.has("redis") {
			one.Prefix = "rl"
		}
		f.Configs = append(f.Configs, &one)
	}
}

// configurationOf is the configuration that a block has, or names: "recipe HEADING" is the one under a
// heading of docs/cookbook.md, "recipe PAGE#HEADING" that of another page, changed by lines "OLD -> NEW".
func configurationOf(t *testing.T, at, input string) string {
	t.Helper()
	heading, isRecipe := strings.CutPrefix(input, "recipe ")
	if !isRecipe {
		return input
	}
	heading, changes, _ := strings.Cut(heading, "\n")
	name, named, hasPage := strings.Cut(heading, "#")
	if !hasPage {
		name, named = "cookbook.md", heading
	}
	page, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(page), "\n## "+named+"\n")
	_, recipe, hasJSON := strings.Cut(section, "```json")
	kind, recipe, _ := strings.Cut(recipe, "\n")
	if recipe, _, _ = strings.Cut(recipe, "```"); !found || !hasJSON {
		t.Fatalf("%s: docs/%s has no recipe %q", at, name, named)
	}
	if kind == " rule" {
		recipe = `{"rules": [` + recipe + `]}`
	}
	recipe = strings.Replace(recipe, `"redis": {"cluster": "redis"},`, "", 1) // the store adds it
	for change := range strings.Lines(changes) {
		before, after, ok := strings.Cut(strings.TrimSuffix(change, "\n"), " -> ")
		if !ok || strings.Count(recipe, before) != 1 {
			t.Fatalf("%s: %q changes no one place of the recipe %q (want OLD -> NEW)", at, change, heading)
		}
		recipe = strings.Replace(recipe, before, after, 1)
	}
	return recipe
}

// at is where a block begins.
func (f *File) at(d *datadriven.TestData) string {
	return strings.Replace(d.Pos, "<string>", f.path, 1)
}

func ruleNames(members string) (names []string) {
	var config struct{ Rules []struct{ Name string } }
	_ = json.Unmarshal([]byte("{"+members), &config)
	for _, r := range config.Rules {
		names = append(names, r.Name)
	}
	return names
}

// config is the configuration of a scenario in a store; nil: it is for the other one.
func (f *File) config(number int, store Store) *Config {
	for _, c := range f.Configs {
		if c.number == number && c.Store == store {
			return c
		}
	}
	return nil
}
