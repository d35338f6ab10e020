package algo

import (
	"errors"
	"strconv"
)

// MaxRestoreMicros bounds the time in which a whole burst is restored, and so
// how long a key may have to live: 100 years.
//
// Bound: us until a burst is restored. Beyond it, the configuration is refused. Protects exact
// doubles.
const MaxRestoreMicros = 100 * 365.25 * 24 * 3600 * 1e6

func (l *Limit) validate() error {
	leastWindow, mostWindow := int64(MinWindowMicros), int64(MaxWindowMicros)
	leastTTL, mostTTL := int64(0), int64(0)
	if !l.Algorithm.HasWindow() {
		leastWindow, mostWindow = 0, 0
	}
	if l.Algorithm.Takes(FieldTTL) {
		leastTTL, mostTTL = MinTTLMicros, MaxTTLMicros
	}
	if l.Algorithm < FixedWindow || l.Algorithm >= endOfAlgorithms {
		return invalid("algorithm ", int(l.Algorithm), " (want ", int(FixedWindow), " to ", int(endOfAlgorithms-1), ")")
	}
	for _, f := range []struct {
		name           string
		v, least, most int64
	}{
		{"limit", l.Units, 0, MaxUnits},
		{"window in us", l.WindowMicros, leastWindow, mostWindow},
		{"burst", l.Burst, 0, MaxUnits},
		{"sub_windows", l.SubWindows, 0, MaxSubWindows},
		{"max_delay in us", l.MaxDelayMicros, 0, MaxWindowMicros},
		{"ttl in us", l.TTLMicros, leastTTL, mostTTL},
		{"ttl of a lease in us", l.LeaseMicros, 0, 2 * l.WindowMicros},
		{"ceiling", l.Ceiling, 0, MaxCeiling},
	} {
		if !within(f.v, f.least, f.most) {
			return invalid(f.name, " ", f.v, " is out of range (want ", f.least, " to ", f.most, ")")
		}
	}
	if l.WindowMicros%1000 != 0 {
		return invalid("window of ", l.WindowMicros, " us (want whole milliseconds)")
	}
	if l.Steps && (l.Guarantee || l.Pool) {
		return invalid("a bucket that refills in steps guarantees nothing")
	}

	// Fields that are not the algorithm's, or not of its variant.
	for _, f := range []struct {
		field Field
		set   bool
	}{
		{FieldBurst, l.Burst != 0},
		{FieldAnchor, l.FromFirstRequest},
		{FieldSubWindows, l.SubWindows != 0},
		{FieldRefill, l.Steps},
		{FieldOverflow, l.Queue},
		{l.Algorithm.delayField(), l.MaxDelayMicros != 0},
	} {
		if f.set && !l.Algorithm.Takes(f.field) {
			return invalid(f.field, " does not belong to ", l.Algorithm)
		}
	}
	if l.MaxDelayMicros != 0 && !l.Queue {
		return invalid(l.Algorithm.delayField(), " does not belong to a ", l.Algorithm, " that is a meter")
	}
	if l.Queue && l.Steps {
		return invalid(FieldOverflow, " does not belong to a ", l.Algorithm, " that is refilled in steps")
	}
	if l.LeaseMicros != 0 && (!l.Algorithm.HasBurst() || l.Queue || l.Steps) {
		return invalid("batches do not belong to a ", l.Algorithm, " of this kind")
	}
	if l.CalendarID != "" && (!l.Algorithm.HasCalendar() || l.FromFirstRequest) {
		return invalid("calendar windows do not belong to ", l.Algorithm, " with its own windows")
	}
	if l.CalendarID == "" && l.Bounds != (Bounds{}) || !l.Bounds.valid() {
		b := l.Bounds
		return invalid("bounds [", b[0], " ", b[1], " ", b[2], " ", b[3],
			"] (want those of calendar windows, in order and in whole minutes)")
	}
	if n := max(l.SubWindows, 1); l.WindowMicros%n != 0 {
		return invalid(n, " sub_windows do not divide ", l.WindowMicros, " us evenly")
	}
	if l.RestoreMicros() > MaxRestoreMicros {
		return invalid("a burst of ", l.Capacity(), " is restored in ", l.RestoreMicros(),
			" us (want at most ", int64(MaxRestoreMicros), ", 100 years)")
	}
	return nil
}

// delayField is the field that bounds the delay of a queue.
func (a Algorithm) delayField() Field {
	if a.Takes(FieldMaxWait) {
		return FieldMaxWait
	}
	return FieldMaxDelay
}

// sizeIsValid reports whether Units and Burst are within their bounds.
func (l *Limit) sizeIsValid() bool {
	return l.Bounds.valid() && (l.CalendarID != "" || l.Bounds == (Bounds{})) && within(l.Units, 0, MaxUnits) &&
		within(l.Burst, 0, MaxUnits) && within(l.Ceiling, 0, MaxCeiling) &&
		(l.Burst == 0 || l.Algorithm.Takes(FieldBurst)) && l.RestoreMicros() <= MaxRestoreMicros
}

// invalid is an error whose text is the parts: strings, whole numbers, and what has a name. Package
// fmt would be a tenth of what Envoy has to compile when it loads the plugin.
func invalid(parts ...any) error {
	var text []byte
	for _, part := range parts {
		switch p := part.(type) {
		case string:
			text = append(text, p...)
		case int:
			text = strconv.AppendInt(text, int64(p), 10)
		case int64:
			text = strconv.AppendInt(text, p, 10)
		case interface{ String() string }:
			text = append(text, p.String()...)
		}
	}
	return errors.New(string(text))
}
