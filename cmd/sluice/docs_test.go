package main

import (
	"bytes"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestEveryFlagIsDocumented holds that docs/cli.md names each command and each of
// its flags.
func TestEveryFlagIsDocumented(t *testing.T) {
	t.Parallel()
	text := testenv.File(t, "docs/cli.md")
	page := string(text)
	root := rootCommand(new(console.Console))
	flags := 0
	var visit func(*cobra.Command)
	visit = func(c *cobra.Command) {
		if c.Runnable() && !strings.Contains(page, strings.Fields(c.CommandPath() + " x")[1]) {
			t.Errorf("docs/cli.md does not name %q", c.CommandPath())
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			flags++
			if !strings.Contains(page, "`--"+f.Name) {
				t.Errorf("docs/cli.md does not name --%s of %q", f.Name, c.CommandPath())
			}
		})
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	for _, c := range root.Commands() {
		visit(c)
	}
	if flags < 20 {
		t.Errorf("only %d flags", flags)
	}
}

// TestCapacityTable holds the primaries that docs/sizing.md lists to its own formula
// and figures.
func TestCapacityTable(t *testing.T) {
	t.Parallel()
	text := testenv.File(t, "docs/sizing.md")
	var one, two, three []float64 // us a check: with 100 connections, with 1,000, in batches
	var table [][]float64
	number := regexp.MustCompile(`[0-9]+`)
	for line := range strings.Lines(strings.ReplaceAll(string(text), ",", "")) {
		var n []float64 // the first number of each cell that has one
		for cell := range strings.SplitSeq(line, "|") {
			if first, err := strconv.ParseFloat(number.FindString(cell), 64); err == nil {
				n = append(n, first)
			}
		}
		switch {
		case strings.HasPrefix(line, "| `gcra`") && strings.Contains(line, "**"):
			one = n
		case strings.HasPrefix(line, "| two limits"):
			two = n
		case strings.HasPrefix(line, "| three limits"):
			three = n
		case len(n) == 8 && n[0] >= 10_000:
			table = append(table, n)
		}
	}
	if got, want := [4]int{len(table), len(one), len(two), len(three)}, [4]int{4, 3, 3, 3}; got != want {
		t.Fatalf("the rows, and the numbers for one, two and three limits, are %v, want %v", got, want)
	}
	for _, n := range table { // requests, connections, cores, primaries, with two and three limits, with two rules, MB/s
		column := 0
		if n[1] >= 1000 {
			column = 1
		}
		primaries := func(micros float64) float64 { return math.Ceil(n[0] * micros / 500_000) }
		want := []float64{
			primaries(one[column]), primaries(two[column]), primaries(three[column]),
			primaries(2 * one[column]), n[0] / 5000,
		}
		if !slices.Equal(n[3:], want) {
			t.Errorf("%v requests/s: %v, want %v", n[0], n[3:], want)
		}
	}
}

// example is an example of docs/migration.md: the files, then what they become.
var example = regexp.MustCompile("(?ms)^### Example: ([^\n]+)\n(.*?)^```json\n(.*?)^```$")

// TestMigrationExamples converts what docs/migration.md shows, and wants what it shows.
func TestMigrationExamples(t *testing.T) {
	t.Parallel()
	page := testenv.File(t, "docs/migration.md")
	files := regexp.MustCompile("(?ms)^```yaml\n(.*?)^```$")
	examples := example.FindAllSubmatch(page, -1)
	if len(examples) != strings.Count(string(page), "### Example: ") || len(examples) < 4 {
		t.Fatalf("%d examples", len(examples))
	}
	for _, e := range examples {
		var args []string
		switch yaml := files.FindAllSubmatch(e[2], -1); len(yaml) {
		case 1:
			flag := "--envoy-gateway"
			if bytes.Contains(yaml[0][1], []byte("local_ratelimit")) {
				flag = "--local-ratelimit"
			}
			args = []string{flag, write(t, "original.yaml", string(yaml[0][1]))}
		case 2:
			args = []string{
				"--envoy", write(t, "envoy.yaml", string(yaml[0][1])), "--ratelimit",
				write(t, "ratelimit.yaml", string(yaml[1][1])),
			}
		default:
			t.Fatalf("%s: %d files", e[1], len(yaml))
		}
		if r := execute(t, "", append([]string{"convert"}, args...)...); r.code != console.Done || r.out != string(e[3]) {
			t.Errorf("%s becomes (exit code %d)\n%s\nthe page has\n%s", e[1], r.code, r.out, e[3])
		}
	}
}

// TestExamplesAreValid puts every whole configuration of the documents through
// validate: those in JSON that have rules, and the Envoy files that hold one.
func TestExamplesAreValid(t *testing.T) {
	t.Parallel()
	root := testenv.Root(t)
	pages, err := filepath.Glob(filepath.Join(root, "docs", "*.md"))
	testenv.OK(t, err)
	examples := 0
	for _, page := range append(pages, filepath.Join(root, "README.md")) {
		text := testenv.Read(t, page)
		for i, block := range strings.Split(string(text), "```") {
			head, body, _ := strings.Cut(block, "\n")
			fenced := i%2 == 1 && slices.Contains([]string{"json", "yaml"}, head)
			if !fenced || !strings.Contains(body, `"rules"`) {
				continue
			}
			examples++
			if r := execute(t, body, "validate", "-"); r.code != console.Done {
				t.Errorf("%s: %s%s in\n%s", filepath.Base(page), r.out, r.errors, body)
			}
		}
	}
	if examples < 10 {
		t.Errorf("%d examples were found", examples)
	}
	t.Logf("%d examples", examples)
}
