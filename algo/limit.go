// Package algo holds the rate limiting algorithms. Each has a Lua script, which
// Redis runs atomically, and a Go twin, which the embedded store runs and which
// the tests hold against the Lua to the microsecond.
//
// An algorithm is a row of the table algorithms: whatever depends on which one it is, is a
// member of that row. No package above names an algorithm, so a new one changes this
// package, its documentation, and nothing else.
package algo

import (
	"math"
	"math/bits"
)

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

// Uncharged is the decision d, which charged cost, as if it had not: what a limit
// shows that allowed while another rejected.
func (d Decision) Uncharged(cost int64) Decision {
	d.Remaining += cost - d.WaitingUnits
	d.ResetAfterMicros = d.ResetBeforeMicros
	return d
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
