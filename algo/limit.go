// Package algo holds the rate limiting algorithms. Each has a Lua script, which
// Redis runs atomically, and a Go twin, which the embedded store runs and which
// the tests hold against the Lua to the microsecond.
//
// An algorithm is a row of the table algorithms: whatever depends on which one it is, is a
// member of that row. No package above names an algorithm, so a new one changes this
// package, its documentation, and nothing else.
package algo

import "strconv"

// Bounds of a Limit's fields and of a cost. All are inclusive; a limit may be 0.
const (
	// Bound: of `limit` and `burst`. Beyond it, the configuration is refused, and an override
	// counts as this. Protects exact doubles.
	MaxUnits = 1_000_000_000
	// Bound: us of a window. Below it, the configuration is refused. Protects exact doubles.
	MinWindowMicros = 1_000 // 1 ms
	// Bound: us of a window. Beyond it, the configuration is refused. Protects exact doubles.
	MaxWindowMicros = 366 * 24 * 3600 * 1e6 // 366 days
	// Bound: of a cost. Beyond it, the configuration is refused, and a header counts as its `max`.
	// Protects exact doubles.
	MaxCost = 1_000_000
	// Bound: parts of a window. Beyond it, the configuration is refused. Protects the time of a
	// call.
	MaxSubWindows = 60
)

// Limit is one limit of a rule: Units in each window of WindowMicros, or of slots at
// once.
type Limit struct {
	Algorithm Algorithm

	// Units is the configuration's "limit": what a window admits, 0 to MaxUnits. A
	// limit of 0 rejects every cost but 0, for ever.
	Units int64
	// WindowMicros is a whole number of milliseconds, in microseconds; 0 for an
	// algorithm without a window.
	WindowMicros int64
	// Burst is the capacity of token_bucket, leaky_bucket and gcra, 1 to
	// MaxUnits; 0 stands for Units. It is 0 for the other algorithms.
	Burst int64
	// FromFirstRequest starts a fixed window with its first request; otherwise
	// windows are aligned to the Unix epoch.
	FromFirstRequest bool
	// Steps refills a token_bucket at each multiple of its window, with Units at once;
	// otherwise it is refilled evenly.
	Steps bool
	// CalendarID names the calendar windows of a fixed window, as its key does:
	// "month:Europe/Berlin:31". Their Bounds come with each call. WindowMicros is
	// then about the longest of them. "" for all others.
	CalendarID string
	Bounds     Bounds
	// SubWindows is how many parts of a window the sliding_window_counter
	// counts apart, 1 to MaxSubWindows; 0 stands for 1.
	SubWindows int64
	// Queue makes a bucket delay what it admits; otherwise it is a meter. From a leaky_bucket
	// requests leave evenly. Of a token_bucket or gcra a burst leaves at once, and what
	// is over it waits until it would fit.
	Queue bool
	// MaxDelayMicros is the longest delay of a Queue, "max_delay" or "max_wait": what would
	// wait longer is rejected.
	MaxDelayMicros int64
	// LeaseMicros is, for a bucket of which workers take batches of units, how long after its
	// charge a unit of a batch may be spent: at most a window. 0: there are no batches. Every
	// cost above 1 is that of a batch then.
	LeaseMicros int64
	// PerID names a limit that counts for each value within its rule's identity, as its key
	// does: "team|", escaped, before the values. "" for a limit that counts the identity itself.
	PerID string
	// Ceiling is the share of the capacity, in percent, that the class of the request may use
	// together with all others: MaxCeiling of a limit whose classes are not asked yet. 0: the limit
	// has no classes.
	Ceiling int64
	// Guarantee is a limit that admits what fits into it although the Pool, another limit of the
	// rule, is full, as long as the Pool's debt stays within one capacity; what does not fit into
	// it borrows from the Pool. See guarantee.go.
	Guarantee, Pool bool
	// Indebted makes of a Pool one that its guarantee has admitted a request to: it has room until
	// its debt is one capacity.
	Indebted bool
	// Over is a limit that may pay for what the rule's own limits reject, which come before it: see
	// over.go.
	Over bool
	// TTLMicros is after how long without a renewal a concurrency's slots are free,
	// MinTTLMicros to MaxTTLMicros. It is 0 for the other algorithms.
	TTLMicros int64
}

// Bounds are when three calendar windows begin, one after another, and when the last
// of them ends: in microseconds since the Unix epoch, in whole minutes. The zero
// Bounds hold no time.
type Bounds [4]int64

// window is the one of the three that holds a time: when it begins and ends. It is
// 0, 0 if none does.
func (b *Bounds) window(micros int64) (begins, ends int64) {
	for i := range len(b) - 1 {
		if b[i] <= micros && micros < b[i+1] {
			return b[i], b[i+1]
		}
	}
	return 0, 0
}

// valid reports whether the Bounds are in order, or zero.
func (b *Bounds) valid() bool {
	if *b == (Bounds{}) {
		return true
	}
	last := int64(-1)
	for _, micros := range b {
		if micros <= last || micros > maxReplyMicros || micros%minute != 0 {
			return false
		}
		last = micros
	}
	return true
}

const minute = 60e6 // us

// MaxCeiling is the highest Ceiling, in percent; the lowest is 1.
//
// Bound: percent of a class's ceiling. Beyond it, the configuration is refused. Protects limits from
// classes that pass them.
const MaxCeiling = 100

// Never is the RetryAfterMicros of a cost above the capacity: no wait helps.
const Never = -1

// Decision is one limit's answer to one request.
type Decision struct {
	// Allowed is whether this limit admits the request's cost.
	Allowed bool
	// Hidden is whether the limit was not asked, or does not apply: no client sees it.
	Hidden bool
	// Remaining is how many whole units could still be admitted at once: after
	// the charge if the whole call was allowed, otherwise without it. Never
	// negative.
	Remaining int64
	// ResetAfterMicros is the time until the full capacity is back, rounded up: after
	// the charge if there is one. It is 0 when nothing is consumed.
	ResetAfterMicros int64
	// ResetBeforeMicros is the same without the charge, whether it was made or
	// not.
	ResetBeforeMicros int64
	// RetryAfterMicros is the time until this same cost would be admitted,
	// rounded up: 0 when allowed, Never when no wait helps.
	RetryAfterMicros int64
	// DelayMicros is how long a Queue holds the admitted request, rounded up;
	// 0 for all others.
	DelayMicros int64
	// WaitingUnits is how many units of the cost did not fit into the burst, and are the
	// reason of that delay; 0 for all but the Queue of a token_bucket or gcra.
	WaitingUnits int64
	// BeginsMicros and EndsMicros are the calendar window that was decided in, since
	// the Unix epoch; 0 for all others.
	BeginsMicros, EndsMicros int64
}

// Uncharged is the decision d, which charged cost, as if it had not: what a limit
// shows that allowed while another rejected.
func (d Decision) Uncharged(cost int64) Decision {
	d.Remaining += cost - d.WaitingUnits
	d.ResetAfterMicros = d.ResetBeforeMicros
	return d
}

// PerInfix stands in the keys of limits that count for each value, before the PerID.
const PerInfix = ":per:"

// KeySuffix follows the hash tag in the limit's Redis key: ":<algorithm>:<window>", and the
// variant if its state differs; ":over" before it for a limit with Over. Limits with the same
// suffix continue each other's state. With a PerID the values follow.
func (l *Limit) KeySuffix() string {
	suffix := ":" + l.Algorithm.String()
	switch {
	case l.CalendarID != "":
		suffix += ":" + l.CalendarID
	case l.Algorithm.HasWindow():
		suffix += ":" + FormatDuration(l.WindowMicros)
	}
	switch {
	case l.CalendarID != "" || !l.Algorithm.HasWindow():
	case l.FromFirstRequest:
		suffix += ":first"
	case l.SubWindows > 1:
		suffix += ":" + strconv.FormatInt(l.SubWindows, 10)
	case l.Steps:
		suffix += ":step"
	}
	if l.Over {
		suffix = OverInfix + suffix
	}
	if l.PerID != "" {
		suffix += PerInfix + l.PerID
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
		// FNV-1a in 32 bits, made to differ from all small numbers: http://www.isthe.com/chongo/tech/comp/fnv/
		hash := uint32(2166136261)
		for i := range len(l.CalendarID) {
			hash = (hash ^ uint32(l.CalendarID[i])) * 16777619
		}
		id.Variant = 1<<32 | uint64(hash)
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
