package main

import (
	"context"
	"testing"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestOverrideList sets overrides with reasons, and lists them as docs/cli.md does.
func TestOverrideList(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := server.Client()
	plugin := write(t, "plugin.json", counted)
	run := func(args ...string) result {
		return execute(t, "", append(args, "-c", plugin, "--redis", server.Addr)...)
	}
	for _, args := range [][]string{
		{"override", "per-key", "alice", "--to", "x2", "--for", "2h", "--reason", "launch week, asked by Kim"},
		{"block", "per-key", "mallory", "--reason", "scraper\x1b[2J"},
	} {
		if r := run(args...); r.code != console.Done {
			t.Fatalf("%v: %s", args, r.errors)
		}
	}
	testenv.OK(t, client.Set(context.Background(), "rl:{gone|bob}:override", "nonsense", 0).Err())
	e := readExample(t, "### What is in force").with(map[string]string{"plugin.json": plugin, "redis:6379": server.Addr})
	if r := execute(t, "", e.args...); evenly(r.out) != evenly(e.out) {
		t.Errorf("%s%s\nthe page has\n%s", r.out, r.errors, e.out)
	}
}
