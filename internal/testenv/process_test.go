package testenv

import (
	"errors"
	"strings"
	"testing"
	"time"
)

func TestRunShowsOutputAndEnd(t *testing.T) {
	t.Parallel()
	p := Run(t, []string{"WORD=spoken"}, "/bin/sh", "-c", "echo $WORD; echo wrong >&2")
	<-p.Exited()
	if got, want := p.Log(), "spoken\nwrong\n"; got != want {
		t.Errorf("log %q, want %q", got, want)
	}
	p.Kill() // of what has ended: no harm
}

func TestRunEndsWithTheTest(t *testing.T) {
	t.Parallel()
	var p *Process
	t.Run("owner", func(t *testing.T) { p = Run(t, nil, "sleep", "1000") })
	select {
	case <-p.Exited():
	default:
		t.Fatal("still running")
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	calls := 0
	Wait(t, time.Minute, func() error {
		if calls++; calls < 3 {
			return errors.New("not yet")
		}
		return nil
	})
	if calls != 3 {
		t.Errorf("%d calls, want 3", calls)
	}
	got := fatal(t, func(tb testing.TB) {
		Wait(tb, 0, func() error { return errors.New("never") })
	})
	if !strings.Contains(got, "never") {
		t.Errorf("failed with %q, want the last error", got)
	}
}
