package testenv

import (
	"testing"
	"time"
)

// Wait returns once ready reports nil, which it is asked every few
// milliseconds, and fails the test with its last error after the limit.
func Wait(t testing.TB, limit time.Duration, ready func() error) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for {
		err := ready()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v: %v", limit, err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}
