package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// pageExample is a command of docs/cli.md, and what the page says that it prints.
type pageExample struct {
	args []string // after "sluice"
	out  string
}

// readExample finds the first command and output after a heading of docs/cli.md.
func readExample(t *testing.T, heading string) pageExample {
	t.Helper()
	page := testenv.File(t, "docs/cli.md")
	found := regexp.MustCompile("(?s)\n" + regexp.QuoteMeta(heading) +
		"\n.*?```sh\nsluice (.*?)\n```.*?```text\n(.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatalf("docs/cli.md has no example after %q", heading)
	}
	e := pageExample{out: string(found[2])}
	line := strings.ReplaceAll(string(found[1]), "\\\n", "")
	for _, word := range regexp.MustCompile(`'[^']*'|\S+`).FindAllString(line, -1) {
		e.args = append(e.args, strings.Trim(word, "'"))
	}
	return e
}

// with puts files in the places of those that the page names.
func (e pageExample) with(files map[string]string) pageExample {
	args := make([]string, len(e.args))
	for i, arg := range e.args {
		args[i] = arg
		if file, ok := files[arg]; ok {
			args[i] = file
		}
	}
	return pageExample{args, e.out}
}

// mistaken is the plugin.json that the examples of validate look at.
const mistaken = `{"rules": [
  {"name": "a", "limits": [
    {"algorithm": "gcra", "limit": 5,
     "window": "10x"}]}]}`

func TestValidateExample(t *testing.T) {
	t.Parallel()
	shipped := testenv.File(t, "envoy.yaml")
	broken := strings.NewReplacer(`"cluster": "redis"`, `"cluster": "cache"`, "use_remote_address: true",
		"use_remote_address: false")
	files := map[string]string{
		"plugin.json": write(t, "plugin.json", mistaken),
		"envoy.yaml":  write(t, "envoy.yaml", broken.Replace(string(shipped))),
	}
	e := readExample(t, "## validate").with(files)
	r := execute(t, "", e.args...)
	for name, file := range files {
		r.out = strings.ReplaceAll(r.out, file, name)
	}
	line := regexp.MustCompile(`(?m)^(\S+):[0-9]+:`) // of envoy.yaml, which may move
	if r.code != console.Refused || line.ReplaceAllString(r.out, "$1:") != line.ReplaceAllString(e.out, "$1:") {
		t.Errorf("exit code %d\n%s\nthe page has\n%s", r.code, r.out, e.out)
	}
}

// block is the first block of the page's text that begins with a line, after a heading.
func block(t *testing.T, heading, begin string) string {
	t.Helper()
	page := testenv.File(t, "docs/cli.md")
	_, after, _ := strings.Cut(string(page), "\n"+heading)
	_, after, _ = strings.Cut(after, "\n```"+begin+"\n")
	text, _, found := strings.Cut(after, "```")
	if !found {
		t.Fatalf("docs/cli.md has no block of %s after %q", begin, heading)
	}
	return text
}

func TestExplainExample(t *testing.T) {
	t.Parallel()
	e := readExample(t, "## explain").with(map[string]string{"envoy.yaml": filepath.Join(testenv.Root(t), "envoy.yaml")})
	r := execute(t, "", e.args...)
	hash := regexp.MustCompile(`\|([0-9a-f]{4})[0-9a-f]{36}}`) // the page has keys without the whole of it
	testenv.Same(t, "the exit code", r.code, console.Done)
	testenv.Same(t, "the output", hash.ReplaceAllString(r.out, "|$1...}"), e.out)
}

func TestConvertExample(t *testing.T) {
	t.Parallel()
	service := write(t, "ratelimit.yaml", `domain: api
descriptors:
- {key: user, rate_limit: {unit: minute, requests_per_unit: 100, name: plain}}
- key: user
  value: gold
  rate_limit: {unit: minute, requests_per_unit: 1000, replaces: [{name: plain}]}
`)
	routes := write(t, "envoy.yaml", `virtual_hosts:
- name: api
  domains: ["*"]
  routes:
  - match: {prefix: /}
    route:
      cluster: api
      rate_limits:
      - stage: 1
        actions: [{request_headers: {header_name: x-user, descriptor_key: user}}]
http_filters:
- name: envoy.filters.http.ratelimit
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.http.ratelimit.v3.RateLimit
    domain: api
`)
	out := filepath.Join(t.TempDir(), "plugin.json")
	command, _, _ := strings.Cut(block(t, "## convert", "sh"), "\n")
	args := strings.Fields(strings.NewReplacer("ratelimit.yaml", service, "envoy.yaml", routes, "plugin.json", out).
		Replace(command))
	r := execute(t, "", args[1:]...)
	shown := strings.NewReplacer(service, "ratelimit.yaml", routes, "envoy.yaml", out, "plugin.json").Replace(r.errors)
	testenv.Same(t, "the exit code", r.code, console.Done)
	testenv.Same(t, "the differences", shown, block(t, "## convert", "text"))
}

// TestEveryOutputIsHeld counts what docs/cli.md shows. Whoever adds to it adds a test that holds it.
func TestEveryOutputIsHeld(t *testing.T) {
	t.Parallel()
	page := testenv.File(t, "docs/cli.md")
	held := map[string]string{ // by the heading
		"## validate":          "TestValidateExample",
		"## convert":           "TestConvertExample",
		"## explain":           "TestExplainExample",
		"## simulate":          "TestSimulateExample",
		"## compare":           "TestCompareExample",
		"## suggest":           "TestSuggestExample",
		"## get, reset":        "TestGetExamples",
		"### Flags":            "TestTLSAndACL",
		"## doctor":            "TestDoctorExample",
		"### What is in force": "TestOverrideList",
	}
	heading, seen := "", 0
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "## ") || strings.HasPrefix(line, "### ") {
			heading = strings.TrimSpace(line)
		}
		if line == "```text\n" {
			seen++
			if held[heading] == "" {
				t.Errorf("no test holds the output after %q", heading)
			}
		}
	}
	testenv.Same(t, "outputs", seen, len(held))
}
