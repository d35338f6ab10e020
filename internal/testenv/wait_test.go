package testenv

import (
	"errors"
	"testing"
	"time"
)

// TestStepsOfAWait waits in steps of a second, for 3 seconds without a change and for 30 in all.
func TestStepsOfAWait(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		errors  string // a letter a second, and then it is ready
		seconds int
		want    string
	}{
		{"ready at once", "", 0, ""},
		{"ready in time", "nnn", 3, ""},
		{"the same for too long", "nnnnn", 4, "after 4s: n"},
		{"slow, and under way", "aaabbbcccdddeeefffgg", 20, ""},
		{"never the same", "abcdefghijklmnopqrstuvwxyzABCDEFGHIJ", 31, "after 31s: F"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			second := 0
			err := wait(3*time.Second, func() error {
				if second < len(tc.errors) {
					return errors.New(tc.errors[second : second+1])
				}
				return nil
			}, func() time.Duration {
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
