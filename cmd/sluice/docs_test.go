package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestEveryFlagIsDocumented holds that docs/cli.md names each command and each of
// its flags.
func TestEveryFlagIsDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(testenv.Root(t), "docs/cli.md"))
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	a := &app{}
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
	for _, c := range a.root().Commands() {
		visit(c)
	}
	if flags < 20 {
		t.Errorf("only %d flags", flags)
	}
}
