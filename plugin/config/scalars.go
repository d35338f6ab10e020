package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/text"
	"github.com/tidwall/gjson"
)

// readText reads a string.
func (v value) readText() (string, bool) {
	if v.json.Type != gjson.String {
		v.mistake("%s is not a string (want one in double quotes)", v.shown())
		return "", false
	}
	return v.json.Str, true
}

// readNonEmpty reads a string of at least one byte.
func (v value) readNonEmpty(what string) (string, bool) {
	s, ok := v.readText()
	if ok && s == "" {
		v.mistake("the string is empty (want %s)", what)
	}
	return s, ok && s != ""
}

// readBoolean reads true, as 1, or false.
func (v value) readBoolean() (n int64, ok bool) {
	if v.json.Type == gjson.True {
		return 1, true
	}
	if v.json.Type != gjson.False {
		v.mistake("%s is not a boolean (want true or false)", v.shown())
		return 0, false
	}
	return 0, true
}

// readWord reads one of a few words, and returns its place.
func (v value) readWord(known []string) (place int64, ok bool) {
	if i := slices.Index(known, v.json.Str); i >= 0 && v.json.Type == gjson.String {
		return int64(i), true
	}
	v.mistake("%s is not a known value (want one of %s)", v.shown(), quotedList(known))
	return 0, false
}

// readWhole reads a whole number within bounds.
func (v value) readWhole(lowest, highest int64) (int64, bool) {
	if v.json.Type == gjson.Number {
		if n, ok := wholeNumber(v.json.Raw); ok && n >= lowest && n <= highest {
			return n, true
		} else if ok {
			v.mistake("%s is out of bounds (want %d to %d)", v.shown(), lowest, highest)
			return 0, false
		}
	}
	v.mistake("%s is not a whole number (want one from %d to %d)", v.shown(), lowest, highest)
	return 0, false
}

// readDuration reads a duration within bounds, all in microseconds, or 0 where that means something.
func (v value) readDuration(lowest, highest int64, orZero string) (int64, bool) {
	if v.json.Type == gjson.String {
		micros, ok := parseDuration(v.json.Str)
		if ok && (micros >= lowest && micros <= highest || micros == 0 && orZero != "") {
			return micros, true
		} else if ok {
			if orZero != "" {
				orZero = `, or "0s": ` + orZero
			}
			v.mistake("%s is out of bounds (want %q to %q%s)",
				v.shown(), algo.FormatDuration(lowest), algo.FormatDuration(highest), orZero)
			return 0, false
		}
	}
	v.mistake(`%s is not a duration (want one such as "500ms", "1s", "1m", "1h", "1d")`, v.shown())
	return 0, false
}

// Bound: whole number that JSON can spell. Beyond it, the number counts as this large, which every
// field refuses. Protects arithmetic.
const maxJSONWhole = 1_000_000_000_000_000_000

// wholeNumber reads a JSON number exactly, in any spelling: 1000, 1000.0 and
// 1e3 are one number, as tools between the user and Envoy may respell it. Numbers
// beyond plus or minus maxJSONWhole are cut to that. For a fraction ok is false.
func wholeNumber(raw string) (n int64, ok bool) {
	unsigned, negative := strings.CutPrefix(raw, "-")
	mantissa, exponent, _ := strings.Cut(strings.ReplaceAll(unsigned, "E", "e"), "e")
	integer, fraction, _ := strings.Cut(mantissa, ".")
	digits := strings.TrimLeft(integer+fraction, "0")
	if digits == "" {
		return 0, true
	}
	significant := strings.TrimRight(digits, "0")
	// One that does not fit is read as the nearest that does, and cut to a billion: no configuration
	// has so many digits to make up for it.
	exp, _ := strconv.ParseInt(exponent, 10, 32)
	power := int(max(-1e9, min(1e9, exp))) + len(digits) - len(significant) - len(fraction)
	switch {
	case power < 0:
		return 0, false
	case power+len(significant) > 18:
		n = maxJSONWhole
	default:
		// At most 18 digits: no overflow, no error.
		n, _ = strconv.ParseInt(significant+strings.Repeat("0", power), 10, 64)
	}
	if negative {
		n = -n
	}
	return n, true
}

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

// The bounds and defaults in the tables of fields that are in no other package.

// maxCount bounds counts that need no bound of their own.
//
// Bound: of `max_pending`, `failures`, `segments`, `per`. Beyond it, the configuration is refused.
// Protects arithmetic.
const maxCount = 1_000_000_000

// Bound: number of Redis' database. Beyond it, the configuration is refused. Protects the
// connection: no Redis has more.
const maxDatabase = 1<<31 - 1

const (
	// Bound: us that a request waits for Redis, unless `timeout` says otherwise. Beyond it, the
	// failure mode decides. Protects requests from a Redis that hangs.
	defaultTimeoutMicros = 50 * millisecond
	// Bound: us of `timeout`. Beyond it, the configuration is refused. Protects requests.
	maxTimeoutMicros = minute
	// Bound: requests with commands in a worker's pipe, unless `max_pending` says otherwise. Beyond
	// it, further requests wait in the worker. Protects Redis and the worker's memory.
	defaultMaxPending = 4096
	// Bound: failures in a row, unless `failures` says otherwise. Beyond it, the breaker opens.
	// Protects requests from waiting for a Redis that fails.
	defaultFailures = 5
)

// Bound: us that a queue holds a request, unless `max_delay` says otherwise. Beyond it, the request
// is refused. Protects clients from waits without end.
const defaultMaxDelayMicros = 30 * second

// Bound: us of `max_delay`. Beyond it, the configuration is refused. Protects clients from waits
// without end.
const maxQueueMicros = hour

// Bound: us of `max_wait`. Beyond it, the configuration is refused. Protects clients from waits
// without end.
const maxWaitMicros = minute

// Bound: us that a slot outlives its last renewal, unless `ttl` says otherwise. Beyond it, the slot
// ends. Protects limits from slots of a dead Envoy.
const defaultTTLMicros = 30 * second

const (
	// Bound: entries of the deny cache, unless `size` says otherwise. Beyond it, the one unused for
	// longest is forgotten. Protects memory.
	defaultDenyCacheSize = 4096
	// Bound: of `deny_cache.size`. Beyond it, the configuration is refused. Protects memory.
	maxDenyCacheSize = 1_000_000
)

// Bound: of `top_offenders.size`. Beyond it, the configuration is refused. Protects memory.
const maxOffenders = 1000

// Bound: us of a lease's `ttl`. Below it, the configuration is refused. Protects Redis: a shorter
// lease saves no calls.
const minLeaseMicros = 10 * millisecond

// Words, most at the place of the constant for which they stand. Messages name them in
// this order.
var (
	modes        = []string{Enforce: "enforce", Shadow: "shadow", Off: "off"}
	failureModes = []string{FailAllow: "allow", FailDeny: "deny", FailLocal: "local"}
	periods      = []string{Day: "day", Week: "week", Month: "month", Year: "year"}
	weekdays     = []string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}
	families     = []string{"x-ratelimit", "draft"}
	algorithms   = algorithmNames(func(algo.Algorithm) bool { return true })
)

// algorithmNames are the names of the algorithms for which holds is true.
func algorithmNames(holds func(algo.Algorithm) bool) (names []string) {
	for _, a := range algo.Algorithms() {
		if holds(a) {
			names = append(names, a.String())
		}
	}
	return names
}
