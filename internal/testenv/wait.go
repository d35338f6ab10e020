package testenv

import (
	"context"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/process"
)

// Wait returns once ready reports nil, which it is asked every few
// milliseconds, and fails the test with its last error after the limit.
func Wait(t testing.TB, limit time.Duration, ready func() error) {
	t.Helper()
	asked := func(context.Context) error { return ready() }
	if err := process.Await(context.Background(), limit, asked); err != nil { // cleanups wait, too
		t.Fatalf("%v", err)
	}
}
