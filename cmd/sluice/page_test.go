package main

import (
	"os"
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
	page, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs/cli.md"))
	if err != nil {
		t.Fatal(err)
	}
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

func TestValidateExample(t *testing.T) {
	t.Parallel()
	shipped, err := os.ReadFile(filepath.Join(testenv.Root(t), "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	broken := strings.NewReplacer(`"cluster": "redis"`, `"cluster": "cache"`, "use_remote_address: true",
		"use_remote_address: false")
	files := map[string]string{
		"plugin.json": write(t, "plugin.json",
			"{\"rules\": [\n  {\"name\": \"a\", \"limits\": [\n    {\"algorithm\": \"gcra\", \"limit\": 5,\n     \"window\": "+
				"\"10x\"}]}]}"),
		"envoy.yaml": write(t, "envoy.yaml", broken.Replace(string(shipped))),
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
