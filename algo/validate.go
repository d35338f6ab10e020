package algo

import "fmt"

// MaxRestoreMicros bounds the time in which a whole burst is restored, and so
// how long a key may have to live: 100 years.
const MaxRestoreMicros = 100 * 365.25 * 24 * 3600 * 1e6

// validate refuses what NewPlan cannot make right. The first mistake is
// returned.
func validate(limits []Limit) error {
	if len(limits) == 0 || len(limits) > MaxLimits {
		return fmt.Errorf("%d limits in one rule (want 1 to %d)", len(limits), MaxLimits)
	}
	for i := range limits {
		if err := limits[i].validate(); err != nil {
			return err
		}
		for j := range limits[:i] {
			if limits[i].ID() == limits[j].ID() {
				return fmt.Errorf("two limits have the key %q (want different ones, as they would share a state)",
					limits[i].KeySuffix())
			}
		}
	}
	return nil
}

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
		return fmt.Errorf("algorithm %d (want %d to %d)", l.Algorithm, FixedWindow, endOfAlgorithms-1)
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
	} {
		if !within(f.v, f.least, f.most) {
			return fmt.Errorf("%s %d is out of range (want %d to %d)", f.name, f.v, f.least, f.most)
		}
	}
	if l.WindowMicros%1000 != 0 {
		return fmt.Errorf("window of %d us (want whole milliseconds)", l.WindowMicros)
	}
	if err := l.validateVariant(); err != nil {
		return err
	}
	return l.validateRestore()
}

// validateVariant refuses fields that are not the algorithm's.
func (l *Limit) validateVariant() error {
	for _, f := range []struct {
		field Field
		set   bool
	}{
		{FieldBurst, l.Burst != 0},
		{FieldAnchor, l.FromFirstRequest},
		{FieldSubWindows, l.SubWindows != 0},
		{FieldOverflow, l.Queue},
		{FieldMaxDelay, l.MaxDelayMicros != 0},
	} {
		if f.set && !l.Algorithm.Takes(f.field) {
			return fmt.Errorf("%s does not belong to %s", f.field, l.Algorithm)
		}
	}
	if l.MaxDelayMicros != 0 && !l.Queue {
		return fmt.Errorf("%s does not belong to a %s that is a meter", FieldMaxDelay, l.Algorithm)
	}
	if l.CalendarID != "" && (l.Algorithm != FixedWindow || l.FromFirstRequest) {
		return fmt.Errorf("calendar windows do not belong to %s with its own windows", l.Algorithm)
	}
	if l.CalendarID == "" && l.Bounds != (Bounds{}) || !l.Bounds.valid() {
		return fmt.Errorf("bounds %v (want those of calendar windows, in order and in whole minutes)", l.Bounds)
	}
	if n := max(l.SubWindows, 1); l.WindowMicros%n != 0 {
		return fmt.Errorf("%d sub_windows do not divide %d us evenly", n, l.WindowMicros)
	}
	return nil
}

// validateRestore refuses a burst that takes too long to be restored.
func (l *Limit) validateRestore() error {
	if l.RestoreMicros() > MaxRestoreMicros {
		return fmt.Errorf("a burst of %d is restored in %d us (want at most %d, 100 years)",
			l.Capacity(), l.RestoreMicros(), int64(MaxRestoreMicros))
	}
	return nil
}

// sizeIsValid reports whether Units and Burst are within their bounds.
func (l *Limit) sizeIsValid() bool {
	return l.Bounds.valid() && (l.CalendarID != "" || l.Bounds == (Bounds{})) && within(l.Units, 0, MaxUnits) && within(l.Burst, 0, MaxUnits) &&
		(l.Burst == 0 || l.Algorithm.Takes(FieldBurst)) && l.RestoreMicros() <= MaxRestoreMicros
}
