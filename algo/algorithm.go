package algo

import "strconv"

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

// PerInfix stands in the keys of limits that count for each value, before the PerID.
const PerInfix = ":per:"

// KeySuffix follows the hash tag in the limit's Redis key: ":<algorithm>:<window>", and the
// variant if its state differs; ":over" before it for a limit with Over. Limits with the same
// suffix continue each other's state. With a PerID the values follow.
func (l *Limit) KeySuffix() string {
	suffix := l.stateSuffix()
	if l.Over {
		suffix = OverInfix + suffix
	}
	if l.PerID != "" {
		suffix += PerInfix + l.PerID
	}
	return suffix
}

// stateSuffix names the state alone.
func (l *Limit) stateSuffix() string {
	if !l.Algorithm.HasWindow() {
		return ":" + l.Algorithm.String()
	}
	suffix := ":" + l.Algorithm.String() + ":" + FormatDuration(l.WindowMicros)
	switch {
	case l.CalendarID != "":
		return ":" + l.Algorithm.String() + ":" + l.CalendarID
	case l.FromFirstRequest:
		return suffix + ":first"
	case l.SubWindows > 1:
		return suffix + ":" + strconv.FormatInt(l.SubWindows, 10)
	case l.Steps:
		return suffix + ":step"
	}
	return suffix
}

// ID says whose a state is in the embedded store, as the key's suffix does in
// Redis: a limit goes on with the state of one that has the same ID. Each value of a limit with
// a PerID has an entry of its own there.
type ID struct {
	Algorithm    Algorithm
	WindowMillis uint64
	Variant      uint64 // 0, or what tells states of one algorithm apart
}

// ID is the limit's ID.
func (l *Limit) ID() ID {
	id := ID{Algorithm: l.Algorithm, WindowMillis: uint64(l.WindowMicros / 1000)}
	switch {
	case l.CalendarID != "":
		id.Variant = hashOf(l.CalendarID)
	case l.FromFirstRequest, l.Steps:
		id.Variant = 1
	case l.SubWindows > 1:
		id.Variant = uint64(l.SubWindows)
	}
	if l.Over {
		id.Variant |= overVariant
	}
	return id
}

// overVariant is in the Variant of limits with Over: it is in no other.
const overVariant = 1 << 33

// hashOf is the FNV-1a of a text in 32 bits, made to differ from all small numbers.
// http://www.isthe.com/chongo/tech/comp/fnv/
func hashOf(text string) uint64 {
	hash := uint32(2166136261)
	for i := range len(text) {
		hash = (hash ^ uint32(text[i])) * 16777619
	}
	return 1<<32 | uint64(hash)
}
