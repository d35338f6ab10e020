package main

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestEveryOutputIsHeld: each output that docs/cli.md shows is held by testdata/script/page.txtar, but for the user of
// Redis, which TestTLSAndACL takes.
func TestEveryOutputIsHeld(t *testing.T) {
	t.Parallel()
	script := string(testenv.File(t, "cmd/sluice/testdata/script/page.txtar"))
	heading, seen := "", 0
	for line := range strings.Lines(string(testenv.File(t, "docs/cli.md"))) {
		if strings.HasPrefix(line, "## ") || strings.HasPrefix(line, "### ") {
			heading = strings.TrimSpace(line)
		}
		if line == "```text\n" && heading != "### Flags" {
			seen++
			testenv.Same(t, "that the output after "+heading+" is held", strings.Contains(script, " '"+heading+"'"), true)
		}
	}
	testenv.Same(t, "outputs", seen, strings.Count(script, "\npage "))
}
