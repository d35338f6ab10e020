package main

import (
	"context"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/redistest"
)

func TestScriptIn(t *testing.T) {
	t.Parallel()
	got, err := scriptIn("package x\nvar allowN = redis.NewScript(`one`)\nvar other = redis.NewScript(`two`)\n")
	if got != "one" || err != nil {
		t.Errorf("got %q, %v", got, err)
	}
	for _, source := range []string{"", "var other = redis.NewScript(`two`)", "var allowN = redis.NewScript(`one"} {
		if got, err := scriptIn(source); err == nil {
			t.Errorf("%q: got %q, want an error", source, got)
		}
	}
}

// standIn answers as redis_rate's script does.
const standIn = "return {1, 0, '-1', '0.001'}"

func TestEverySubjectIsMeasured(t *testing.T) {
	t.Parallel()
	all := subjects(standIn)
	var out strings.Builder
	found, err := benchOn(context.Background(), &out, redistest.Start(t).Addr, all,
		effort{rounds: 2, checks: 1, charges: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := found.pages(); err != nil {
		t.Errorf("the documents: %v", err)
	}
	for _, s := range all {
		if !strings.Contains(out.String(), "\n"+s.name+" ") {
			t.Errorf("no row for %s", s.name)
		}
	}
	for _, s := range rememberings() {
		if !strings.Contains(out.String(), "\n"+s.name+" ") {
			t.Errorf("no size of %s", s.name)
		}
	}
	for _, c := range comparisons {
		if !strings.Contains(out.String(), "\n"+c.name+" ") {
			t.Errorf("no row for %s", c.name)
		}
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// What is measured must be what its name says: a denial that is allowed, or a
// script that fails, ends the run.
func TestWrongAnswersEndTheRun(t *testing.T) {
	t.Parallel()
	addr := redistest.Start(t).Addr
	used := denying("used up", 0, algo.Limit{Algorithm: algo.GCRA, Units: 1, WindowMicros: day})
	used.prime = nil
	fails := &subject{name: "fails", check: func(string) []call { return []call{command("NOSUCH")} }}
	wrong := redisRate("return {0, 0, '1', '1'}")
	for _, s := range []*subject{used, fails, wrong} {
		_, err := benchOn(context.Background(), &strings.Builder{}, addr, []*subject{s},
			effort{rounds: 1, checks: 1, charges: 1})
		if err == nil || !strings.HasPrefix(err.Error(), s.name+": ") {
			t.Errorf("%s: error %v, want one that begins with the name", s.name, err)
		}
	}
}

func TestCanceled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := benchOn(ctx, &strings.Builder{}, redistest.Start(t).Addr, nil,
		effort{rounds: 1, checks: 1, charges: 1}); err == nil {
		t.Error("no error, want that of the context")
	}
}
