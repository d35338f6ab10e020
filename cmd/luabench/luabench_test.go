package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

func TestEverySubjectIsMeasured(t *testing.T) {
	t.Parallel()
	all := append(subjects("subjects"), peers()...)
	var out strings.Builder
	found, err := benchOn(context.Background(), &out, redistest.Start(t).Addr, all,
		effort{rounds: 2, checks: 1, charges: 1})
	testenv.OK(t, err)
	if _, err := found.pages(); err != nil {
		t.Errorf("the documents: %v", err)
	}
	for _, s := range append(all, subjects("sizes")...) {
		if !strings.Contains(out.String(), "\n"+s.Name+" ") {
			t.Errorf("no row for %s", s.Name)
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
	used := subjects("subjects")[slices.IndexFunc(subjects("subjects"), func(s subject) bool { return s.Denied })]
	used.prime = nil
	fails := subject{Name: "fails", check: func(string) []call { return []call{command("NOSUCH")} }}
	wrong := subject{Name: "wrong", check: func(string) []call {
		return []call{{command: []any{"PING"}, accept: func(*redis.Cmd) error { return errors.New("want more") }}}
	}}
	for _, s := range []subject{used, fails, wrong} {
		_, err := benchOn(context.Background(), &strings.Builder{}, addr, []subject{s},
			effort{rounds: 1, checks: 1, charges: 1})
		if err == nil || !strings.HasPrefix(err.Error(), s.Name+": ") {
			t.Errorf("%s: error %v, want one that begins with the name", s.Name, err)
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
