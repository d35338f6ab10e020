package config

import (
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Units of time in microseconds.
const (
	millisecond = 1_000
	second      = 1_000 * millisecond
	minute      = 60 * second
	hour        = 60 * minute
	day         = 24 * hour
)

// maxDurationMicros is where parseDuration saturates: about 285 years, beyond
// every bound.
//
// Bound: us that a duration can spell. Beyond it, the duration counts as this long, which every
// field refuses. Protects sums from overflowing.
const maxDurationMicros = 9_000_000_000_000_000

// parseDuration reads whole numbers with units, such as "500ms" or "1m30s",
// each unit at most once and the larger first. The result is in microseconds;
// beyond maxDurationMicros it is maxDurationMicros.
func parseDuration(spelled string) (micros int64, ok bool) {
	rest := spelled
	for _, unit := range algo.DurationUnits {
		digits := 0
		for digits < len(rest) && text.IsDigit(rest[digits]) {
			digits++
		}
		after, found := strings.CutPrefix(rest[digits:], unit.Name)
		// "5ms" is not "5m" followed by "s".
		if digits == 0 || !found || unit.Name == "m" && strings.HasPrefix(after, "s") {
			continue
		}
		count, err := strconv.ParseInt(rest[:digits], 10, 64)
		if err != nil || count > (maxDurationMicros-micros)/unit.Micros {
			micros = maxDurationMicros
		} else {
			micros += count * unit.Micros
		}
		rest = after
	}
	return micros, spelled != "" && rest == ""
}

// FormatDuration spells a whole number of milliseconds, given in microseconds,
// in the one canonical way, as in Redis keys.
func FormatDuration(micros int64) string { return algo.FormatDuration(micros) }
