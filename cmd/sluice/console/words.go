package console

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"time"
)

// Limit is a limit in a few words, such as `gcra 10 in 1s, burst 20`, with its unit `gcra 10 tokens in
// 1s`, or of what is in flight `concurrency 20 at once`.
func Limit(algorithm string, limit, capacity int64, window, unit string) string {
	if window == "" {
		return fmt.Sprintf("%s %d at once", algorithm, limit)
	}
	text := fmt.Sprintf("%s %s in %s", algorithm, Units(strconv.FormatInt(limit, 10), unit), window)
	if capacity != limit {
		text += fmt.Sprintf(", burst %d", capacity)
	}
	return text
}

// Units is a number with its unit; "" is requests, which need no word.
func Units(number, unit string) string {
	if unit == "" {
		return number
	}
	return number + " " + unit
}

// Identity is an identity as tables have it.
func Identity(identity string) string {
	if identity == "" {
		return "(everybody)"
	}
	return identity
}

// Count writes a number of things, such as "1 limit" and "2 limits".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Whole writes a whole number.
func Whole(v int64) string { return strconv.FormatInt(v, 10) }

// Wait writes a time to wait, rounded up.
func Wait(micros int64) string {
	d := time.Duration(micros) * time.Microsecond
	if d < time.Second {
		return fmt.Sprintf("%d ms", int64(math.Ceil(float64(d)/float64(time.Millisecond))))
	}
	text := (d + time.Second - 1).Truncate(time.Second).String()
	return regexp.MustCompile(`([hm])0[ms](0s)?$`).ReplaceAllString(text, "$1")
}
