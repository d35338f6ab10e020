package main

import (
	"context"
	"strings"
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
	if r := run("override", "list"); r.out != "no override is in force\n" {
		t.Errorf("none: %s%s", r.out, r.errors)
	}
	for _, args := range [][]string{
		{"override", "per-key", "alice", "--to", "x2", "--for", "2h", "--reason", "launch week, asked by Kim"},
		{"block", "per-key", "mallory", "--reason", "scraper\x1b[2J"},
	} {
		if r := run(args...); r.code != console.Done {
			t.Fatalf("%v: %s", args, r.errors)
		}
	}
	if err := client.Set(context.Background(), "rl:{gone|bob}:override", "nonsense", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for _, heading := range []string{"### What is in force"} {
		e := readExample(t, heading).with(map[string]string{"plugin.json": plugin, "redis:6379": server.Addr})
		if r := execute(t, "", e.args...); evenly(r.out) != evenly(e.out) {
			t.Errorf("%s%s\nthe page has\n%s", r.out, r.errors, e.out)
		}
	}
	if r := run("get", "per-key", "alice"); !strings.Contains(r.out, "\nReason: launch week, asked by Kim\n") {
		t.Errorf("get says %s", r.out)
	}
	if r := run("override", "list", "jobs"); r.out != "no override is in force\n" {
		t.Errorf("of another rule: %s%s", r.out, r.errors)
	}
	if r := run("override", "list", "nosuch"); r.code != console.Misused {
		t.Errorf("of no rule: exit code %d", r.code)
	}
	if r := run("override", "per-key", "alice", "--to", "free"); r.code != console.Done {
		t.Errorf("without a reason: %s", r.errors)
	}
	if n := client.Exists(context.Background(), "rl:{per-key|alice}:override:reason").Val(); n != 0 {
		t.Error("the reason of an earlier override is still there")
	}
	if r := run("unblock", "per-key", "mallory"); !strings.Contains(r.out, "its limits are in force again") {
		t.Errorf("unblock: %s", r.out)
	}
	if n := client.Exists(context.Background(), "rl:{per-key|mallory}:override:reason").Val(); n != 0 {
		t.Error("the reason of a block that is gone is still there")
	}
	if r := run("block", "per-key", "a", "--reason", strings.Repeat("x", 501)); r.code != console.Misused {
		t.Errorf("a long reason: exit code %d", r.code)
	}
}

// TestEmptyValue holds that nobody is blocked by a variable of the shell that is not set.
func TestEmptyValue(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	plugin := write(t, "plugin.json", counted)
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"block per-key ?", console.Misused, "a value is empty"},
		{"override per-key ? --to free", console.Misused, "a value is empty"},
		{"block per-key --identity ?", console.Done, "per-key|"},
		{"block per-key --identity a b", console.Misused, "--identity stands in place of the values"},
	} {
		args := strings.Fields(c.args)
		for i, arg := range args {
			args[i] = strings.TrimSuffix(arg, "?")
		}
		r := execute(t, "", append(args, "-c", plugin, "--redis", server.Addr)...)
		testenv.Same(t, c.args+": exit code", r.code, c.code)
		testenv.Same(t, r.out+r.errors+" has "+c.says, strings.Contains(r.out+r.errors, c.says), true)
	}
	testenv.SameList(t, "overrides", server.Client().Keys(context.Background(), "*override").Val(),
		[]string{"rl:{per-key|}:override"})
}
