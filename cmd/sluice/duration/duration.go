// Package duration reads the times that people give to the command line.
package duration

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxDays keeps sums of days and the rest within a time.Duration.
const maxDays = 100_000

// Parse reads what configurations have, such as "500ms", "1m30s" and "1d12h", and what
// time.ParseDuration takes, too: "500us", "1.5h". None is negative.
func Parse(text string) (time.Duration, error) {
	rest, days := text, 0
	if before, after, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseUint(before, 10, 32)
		if err != nil || n > maxDays {
			return 0, wrong(text)
		}
		rest, days = cmp.Or(after, "0s"), int(n)
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || d > maxDays*24*time.Hour || strings.ContainsAny(rest, "+-") {
		return 0, wrong(text)
	}
	return d + time.Duration(days)*24*time.Hour, nil
}

func wrong(text string) error {
	return fmt.Errorf(`%q is not a duration (want one such as "500ms", "1m30s", "2h", "1d")`, text)
}

// Flag is a flag of a command; it implements pflag.Value.
type Flag time.Duration

// New makes the flag that sets d, which is its default.
func New(d *time.Duration) *Flag { return (*Flag)(d) }

// Set implements pflag.Value.
func (f *Flag) Set(text string) error {
	d, err := Parse(text)
	if err == nil {
		*f = Flag(d)
	}
	return err
}

// Type implements pflag.Value.
func (f *Flag) Type() string { return "duration" }

// String implements pflag.Value. A default of 0 is not shown.
func (f *Flag) String() string {
	if *f == 0 {
		return ""
	}
	return time.Duration(*f).String()
}
