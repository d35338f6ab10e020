package algo

import (
	"errors"
	"strings"
)

// OnClock is a script that reads the time, seconds and microseconds, from the last but two and the
// last but one of its arguments, in place of Redis' clock. So vectors are replayed by the very
// scripts that decide requests.
func OnClock(source string) (string, error) {
	if strings.Count(source, clockLine) != 1 {
		return "", errors.New("the script does not read the clock once")
	}
	return strings.Replace(source, clockLine,
		"local time = {table.remove(ARGV, #ARGV - 2), table.remove(ARGV, #ARGV - 1)}\n", 1), nil
}
