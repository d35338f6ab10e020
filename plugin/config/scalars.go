package config

import (
	"slices"
	"strconv"
	"strings"

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
	if v.json.Type == gjson.String {
		if i := slices.Index(known, v.json.Str); i >= 0 {
			return int64(i), true
		}
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
				v.shown(), FormatDuration(lowest), FormatDuration(highest), orZero)
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
	power := clampedInt(exponent) + len(digits) - len(significant) - len(fraction)
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

// clampedInt reads an exponent; "" is 0. Exponents beyond a billion are cut to
// that, as no configuration has a billion digits to make up for them.
func clampedInt(s string) int {
	n, _ := strconv.ParseInt(s, 10, 32) // one that does not fit is the nearest that does
	return int(max(-1e9, min(1e9, n)))
}
