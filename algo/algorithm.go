package algo

import (
	"math"
	"math/bits"
)

// Algorithm names one of the algorithms. The zero value names none.
type Algorithm uint8

// The algorithms, in the order of the documentation.
const (
	FixedWindow Algorithm = iota + 1
	SlidingWindowLog
	SlidingWindowCounter
	TokenBucket
	LeakyBucket
	GCRA
	Concurrency
	endOfAlgorithms
)

// Algorithms returns all of them, in the order of the documentation.
func Algorithms() []Algorithm {
	all := make([]Algorithm, 0, endOfAlgorithms-1)
	for a := FixedWindow; a < endOfAlgorithms; a++ {
		all = append(all, a)
	}
	return all
}

// row is the algorithm's row, or that of no algorithm.
func (a Algorithm) row() *algorithm {
	if a >= endOfAlgorithms {
		a = 0
	}
	return &algorithms[a]
}

// String is the algorithm's name in configurations and in Redis keys.
func (a Algorithm) String() string { return a.row().name }

// ParseAlgorithm finds the algorithm of a name and reports whether there is one.
func ParseAlgorithm(name string) (Algorithm, bool) {
	for a := FixedWindow; a < endOfAlgorithms; a++ {
		if a.String() == name {
			return a, true
		}
	}
	return 0, false
}

// HasWindow reports whether the limit holds for each window. A limit without a window
// counts the slots that are occupied at a moment.
func (a Algorithm) HasWindow() bool { return a.row().windows > noWindow }

// HasCalendar reports whether the windows may be those of a calendar.
func (a Algorithm) HasCalendar() bool { return a.row().windows == orCalendar }

// HasBurst reports whether the algorithm's capacity is its burst, which time
// restores evenly, rather than its limit.
func (a Algorithm) HasBurst() bool { return a.Takes(FieldBurst) }

// Field is a field of a limit that belongs to some algorithms only.
type Field uint8

// The fields, in the order of the documentation.
const (
	FieldBurst Field = iota
	FieldAnchor
	FieldSubWindows
	FieldRefill
	FieldOverflow
	FieldMaxDelay
	FieldMaxWait
	FieldTTL
	// Fields is how many there are.
	Fields
)

var fieldNames = [Fields + 1]string{
	FieldBurst: "burst", FieldAnchor: "anchor", FieldSubWindows: "sub_windows", FieldRefill: "refill",
	FieldOverflow: "overflow", FieldMaxDelay: "max_delay", FieldMaxWait: "max_wait", FieldTTL: "ttl",
	Fields: "unknown",
}

// String is the field's name in configurations.
func (f Field) String() string { return fieldNames[f] }

// fieldSet is a bit for each Field, and one for the fields that all algorithms have.
type fieldSet uint

// common stands for "algorithm", "limit" and "name".
const common fieldSet = 1 << Fields

// Takes reports whether the field belongs to the algorithm.
func (a Algorithm) Takes(f Field) bool { return a.row().fields>>f&1 == 1 }

// Leasable returns nil if a worker may take units of the limit in advance, or
// says why not: they must be worth the same whenever they are spent.
func (l *Limit) Leasable() error { return l.Algorithm.row().leasable(l) }

// RetryAfterFor is the wait of a cost, given that of another one, not higher,
// which the same state has rejected: what a worker may say without asking again.
// known is false where that does not follow to the microsecond.
func (l *Limit) RetryAfterFor(cost, of, retryAfterMicros int64) (micros int64, known bool) {
	switch {
	case l.Pool && cost != of: // the guarantee may have had the shorter wait
		return 0, false
	case cost > l.Room():
		return Never, true
	case cost < of:
		return 0, false
	case cost == of || retryAfterMicros == Never:
		return retryAfterMicros, true
	}
	return l.Algorithm.row().longer(l, cost-of, retryAfterMicros)
}

// RetryAfterBelow is RetryAfterFor in a class that has so many units less room than the one that was
// rejected, whose limit l is. Where the wait does not follow to the microsecond, it is the time
// until nothing is used any more.
func (l *Limit) RetryAfterBelow(units, cost, of, retryAfterMicros, resetAfterMicros int64) (micros int64, known bool) {
	switch {
	case units == 0:
		return l.RetryAfterFor(cost, of, retryAfterMicros)
	case units < 0 || cost < of || l.Pool && cost > l.Room():
		return 0, false
	case retryAfterMicros == Never || cost > l.Room():
		return Never, true
	}
	if micros, known = l.Algorithm.row().longer(l, units+cost-of, retryAfterMicros); !known || l.Pool {
		micros = max(retryAfterMicros, resetAfterMicros)
	}
	return micros, true
}

// How large a limit is.

// Room is the most units that the class of the request can be admitted at one instant: the capacity
// where there are no classes. A ceiling is compared with what is used. It is not a size: what was
// charged is read, clamped, given back and settled by the capacity, whatever the class.
func (l *Limit) Room() int64 { return l.roomOf(l.Capacity()) }

// roomOf is the class's part of a capacity.
func (l *Limit) roomOf(capacity int64) int64 {
	if l.Ceiling == 0 || l.Ceiling == MaxCeiling || capacity == 0 {
		return capacity
	}
	return max(capacity*l.Ceiling/MaxCeiling, 1)
}

// Capacity is the most units that can be admitted at one instant.
func (l *Limit) Capacity() int64 {
	if l.Algorithm.HasBurst() {
		return l.burst()
	}
	return l.Units
}

// burst is the capacity of a limit whose algorithm has a burst.
func (l *Limit) burst() int64 {
	if l.Units > 0 && l.Burst > 0 {
		return l.Burst
	}
	return l.Units
}

// Fit lowers the burst, if need be, to the units that return within MaxRestoreMicros. A
// limit and a burst that come with a request may not go together.
func (l *Limit) Fit() {
	if l.RestoreMicros() <= MaxRestoreMicros {
		return
	}
	if l.Steps {
		l.Burst = MaxRestoreMicros / l.WindowMicros * l.Units
		return
	}
	hi, product := bits.Mul64(MaxRestoreMicros, uint64(l.Units))
	burst, _ := bits.Div64(hi, product, uint64(l.WindowMicros)) // no overflow: l.Units is less
	l.Burst = int64(burst)
}

// RestoreMicros is the time in which the whole capacity is restored, rounded
// up: burst * window / limit of a bucket, in whole windows if it is refilled in steps, else the
// window, as of a limit of 0. It is 0 for slots, which no time restores.
func (l *Limit) RestoreMicros() int64 {
	if !l.Algorithm.HasBurst() || l.Units == 0 {
		return l.WindowMicros
	}
	return l.refillMicros(l.burst())
}

// refillMicros is the time in which a bucket, of a limit above 0, gets so many units back, rounded up.
func (l *Limit) refillMicros(capacity int64) int64 {
	unit := l.Units
	if l.Steps {
		capacity, unit = ceilDiv(capacity, unit), 1
	}
	hi, product := bits.Mul64(uint64(capacity), uint64(l.WindowMicros))
	if hi >= uint64(unit) {
		return math.MaxInt64
	}
	quotient, rest := bits.Div64(hi, product, uint64(unit))
	if rest > 0 {
		quotient++
	}
	return int64(min(quotient, math.MaxInt64))
}

// UnitsRestoredIn is how many units come back in so long, rounded up, if the limit is a bucket that
// is refilled all the time.
func (l *Limit) UnitsRestoredIn(micros int64) int64 {
	hi, product := bits.Mul64(uint64(max(micros, 0)), uint64(l.Units))
	product, carry := bits.Add64(product, uint64(l.WindowMicros)-1, 0)
	if hi += carry; hi >= uint64(l.WindowMicros) {
		return math.MaxInt64
	}
	units, _ := bits.Div64(hi, product, uint64(l.WindowMicros))
	return int64(min(units, math.MaxInt64))
}

// EffectiveWindowMicros is the time in which a client should use no more than what the decision, of
// a time since the Unix epoch, says remains: the "effective window" of
// draft-ietf-httpapi-ratelimit-headers-11, of a limit that allows. It is above 0 of a limit above 0 that
// has a window.
func (l *Limit) EffectiveWindowMicros(d *Decision, atMicros int64) int64 {
	return l.Algorithm.row().lasts(l, d, atMicros)
}

// RestoreRoomMicros is RestoreMicros of the room of the request's class.
func (l *Limit) RestoreRoomMicros() int64 {
	own := *l
	own.Ceiling = 0
	if room := l.Room(); l.Algorithm.HasBurst() && room > 0 {
		own.Burst = room
	}
	return own.RestoreMicros()
}

// Size holds the numbers of a limit that may come with a request: Limit.Units and
// Limit.Burst, within the same bounds, Limit.Bounds of a limit with calendar windows, and
// Limit.Ceiling of one with classes.
type Size struct {
	Units, Burst int64
	Bounds       Bounds
	Ceiling      int64
}

// Resize makes the limit one of another size.
func (l *Limit) Resize(s Size) {
	l.Units, l.Burst, l.Bounds, l.Ceiling = s.Units, s.Burst, s.Bounds, s.Ceiling
}

// Size is the limit's own.
func (l *Limit) Size() Size { return Size{l.Units, l.Burst, l.Bounds, l.Ceiling} }

// Times is the limit's size multiplied by a factor in thousandths: rounded down, 1
// to MaxUnits, but 0 stays 0. A burst that would take too long to be restored is
// lowered, see Fit.
func (l *Limit) Times(factor int64) Size {
	sized := *l
	sized.Units, sized.Burst = times(l.Units, factor), times(l.Burst, factor)
	sized.Fit()
	return sized.Size()
}
