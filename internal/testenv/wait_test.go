package testenv

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// TestStepsOfAWait waits in steps of a second, for 3 seconds without a change and for 30 in all.
func TestStepsOfAWait(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		ready   func(second int) error
		seconds int
		want    string
	}{
		{"ready at once", func(int) error { return nil }, 0, ""},
		{"ready in time", func(s int) error { return until(s, 3, "no") }, 3, ""},
		{"the same for too long", func(s int) error { return until(s, 5, "no") }, 4, "after 4s: no"},
		{"slow, and under way", func(s int) error { return until(s, 20, fmt.Sprint("at ", s/3)) }, 20, ""},
		{"never the same", func(s int) error { return fmt.Errorf("at %d", s) }, 31, "after 31s: at 31"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			second := 0
			err := wait(3*time.Second, func() error { return tc.ready(second) }, func() time.Duration {
				second++
				return time.Duration(second) * time.Second
			})
			got := ""
			if err != nil {
				got = err.Error()
			}
			Same(t, "error", got, tc.want)
			Same(t, "seconds", second, tc.seconds)
		})
	}
}

// until is an error before a second.
func until(second, end int, text string) error {
	if second < end {
		return errors.New(text)
	}
	return nil
}
