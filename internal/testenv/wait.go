package testenv

import (
	"fmt"
	"testing"
	"time"
)

// mostLimits is how many limits Wait takes at most, however often the error changes.
const mostLimits = 10

// Wait returns once ready reports nil, which it is asked every few milliseconds. It fails the test
// with the last error when that has stayed the same for the limit: on a busy machine what a test
// waits for may come slowly, and still comes.
func Wait(t testing.TB, limit time.Duration, ready func() error) {
	t.Helper()
	begin := time.Now()
	err := wait(limit, ready, func() time.Duration {
		time.Sleep(5 * time.Millisecond)
		return time.Since(begin)
	})
	if err != nil {
		t.Fatalf("%v", err)
	}
}

// wait waits as Wait does. pause sleeps, and returns how long the wait has lasted.
func wait(limit time.Duration, ready func() error, pause func() time.Duration) error {
	last, waited, since := "", time.Duration(0), time.Duration(0)
	for {
		err := ready()
		if err == nil {
			return nil
		}
		if now := err.Error(); now != last {
			last, since = now, waited
		}
		if waited-since > limit || waited > mostLimits*limit {
			return fmt.Errorf("after %v: %w", waited.Round(time.Millisecond), err)
		}
		waited = pause()
	}
}
