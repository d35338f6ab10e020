package algo

import (
	"errors"
	"fmt"
	"strconv"
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

// String is the algorithm's name in configurations and in Redis keys.
func (a Algorithm) String() string {
	switch a {
	case FixedWindow:
		return "fixed_window"
	case SlidingWindowLog:
		return "sliding_window_log"
	case SlidingWindowCounter:
		return "sliding_window_counter"
	case TokenBucket:
		return "token_bucket"
	case LeakyBucket:
		return "leaky_bucket"
	case GCRA:
		return "gcra"
	case Concurrency:
		return "concurrency"
	}
	return "unknown"
}

// ParseAlgorithm finds the algorithm of a name and reports whether there is one.
func ParseAlgorithm(name string) (Algorithm, bool) {
	for a := FixedWindow; a < endOfAlgorithms; a++ {
		if a.String() == name {
			return a, true
		}
	}
	return 0, false
}

// HasWindow reports whether the limit is one for each window. The others count what is
// held at a moment: slots.
func (a Algorithm) HasWindow() bool { return a != Concurrency }

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
	FieldOverflow
	FieldMaxDelay
	FieldTTL
	endOfFields
)

// AllFields returns all of them, in the order of the documentation.
func AllFields() []Field {
	all := make([]Field, 0, endOfFields)
	for f := range endOfFields {
		all = append(all, f)
	}
	return all
}

// String is the field's name in configurations.
func (f Field) String() string {
	switch f {
	case FieldBurst:
		return "burst"
	case FieldAnchor:
		return "anchor"
	case FieldSubWindows:
		return "sub_windows"
	case FieldOverflow:
		return "overflow"
	case FieldMaxDelay:
		return "max_delay"
	case FieldTTL:
		return "ttl"
	}
	return "unknown"
}

// fields are what an algorithm takes, a bit for each Field.
func (a Algorithm) fields() (bits uint, known bool) {
	switch a {
	case FixedWindow:
		return 1 << FieldAnchor, true
	case SlidingWindowLog:
		return 0, true
	case SlidingWindowCounter:
		return 1 << FieldSubWindows, true
	case TokenBucket, GCRA:
		return 1 << FieldBurst, true
	case LeakyBucket:
		return 1<<FieldBurst | 1<<FieldOverflow | 1<<FieldMaxDelay, true
	case Concurrency:
		return 1 << FieldTTL, true
	}
	return 0, false
}

// Takes reports whether the field belongs to the algorithm.
func (a Algorithm) Takes(f Field) bool {
	bits, _ := a.fields()
	return bits>>f&1 == 1
}

// Fields are the fields that belong to the algorithm, beside "algorithm",
// "limit", "name" and, if it has one, "window".
func (a Algorithm) Fields() (fields []Field) {
	for f := range endOfFields {
		if a.Takes(f) {
			fields = append(fields, f)
		}
	}
	return fields
}

// Reasons why a limit cannot be leased.
var (
	errLogLease     = errors.New("a sliding_window_log has an entry for each request, made when the request comes")
	errCounterLease = errors.New("a sliding_window_counter weighs requests by when they come")
	errSlotLease    = errors.New("a slot is held by one request, and given back when it ends")
	errQueueLease   = errors.New("a queue delays each request by its own turn")
)

// Leasable returns nil if a worker may take units of the limit in advance, or
// says why not: they must be worth the same whenever they are spent.
func (l *Limit) Leasable() error {
	switch l.Algorithm {
	case FixedWindow, TokenBucket, GCRA:
		return nil
	case LeakyBucket:
		if l.Queue {
			return errQueueLease
		}
		return nil
	case SlidingWindowLog:
		return errLogLease
	case SlidingWindowCounter:
		return errCounterLease
	case Concurrency:
		return errSlotLease
	}
	return fmt.Errorf("nothing is known of leases of the algorithm %s", l.Algorithm)
}

// RetryAfterFor is the wait of a cost, given that of another one, not higher,
// which the same state has rejected: what a worker may say without asking again.
// known is false where that does not follow to the microsecond.
func (l *Limit) RetryAfterFor(cost, of, retryAfterMicros int64) (micros int64, known bool) {
	switch {
	case retryAfterMicros == Never || cost > l.Capacity():
		return Never, true
	case cost == of:
		return retryAfterMicros, true
	case cost < of:
		return 0, false
	}
	switch l.Algorithm {
	case FixedWindow: // all of it comes back at once
		return retryAfterMicros, true
	case TokenBucket, LeakyBucket, GCRA:
		if l.Queue { // may wait for its delay to fall, not for units
			return 0, false
		}
		b := newBucket(l)
		more, whole := b.wholeMicros(cost - of)
		return retryAfterMicros + more, whole
	case SlidingWindowLog, SlidingWindowCounter:
		return 0, false // depends on when the earlier units came
	case Concurrency:
		return retryAfterMicros, true // nobody knows
	}
	return 0, false
}

// KeySuffix is what follows the hash tag in the limit's Redis key:
// ":<algorithm>:<window>", and the variant where its state is another one.
// Limits whose suffixes are equal go on with each other's state.
func (l *Limit) KeySuffix() string {
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
	}
	return suffix
}

// ID says whose a state is in the embedded store, as the key's suffix does in
// Redis: a limit goes on with the state of one that has the same ID.
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
	case l.FromFirstRequest:
		id.Variant = 1
	case l.SubWindows > 1:
		id.Variant = uint64(l.SubWindows)
	}
	return id
}

// hashOf is the FNV-1a of a text in 32 bits, made to differ from all small numbers.
// http://www.isthe.com/chongo/tech/comp/fnv/
func hashOf(text string) uint64 {
	hash := uint32(2166136261)
	for i := range len(text) {
		hash = (hash ^ uint32(text[i])) * 16777619
	}
	return 1<<32 | uint64(hash)
}
