package algo

import (
	_ "embed"
	"errors"
)

//go:embed sliding_window_log.lua
var slidingWindowLogLua string

// slidingWindowLog remembers each charge for one window. Its State is entries,
// oldest first, one for each microsecond in which something was charged.
//
// Beyond logEntries entries a charge in the same cell of time as the newest entry
// is added to it and takes it along. So a log never admits more than its
// definition, what it admits later is late by less than a cell, and what one call
// has to look at is bounded: the entries and, as the window moves over them, the
// cells of one window.
type slidingWindowLog struct {
	limit  int64
	room   int64 // of the request's class: the limit, where there are none
	window int64 // us
	cell   int64 // us
}

// logEntries is how many entries are exact, and the cells of a window.
//
// Bound: entries of a log that are exact. Beyond it, charges in the same 1/2048 of a window become
// one. Protects Redis' memory and time.
const logEntries = 2048

// An entry of a log's State.
const (
	entryFirst = iota // us since the Unix epoch: its first charge
	entryLast         // its last charge; all its units count from then
	entryUnits
	entryLen
)

// slidingWindowLogAlgorithm is the row of sliding_window_log.
var slidingWindowLogAlgorithm = algorithm{
	name: "sliding_window_log", fields: common, windows: ownWindow,
	leasable: func(*Limit) error { return errLogLease },
	longer:   unknownWait,
	lasts:    untilReset,
	make: func(l *Limit) limiter {
		w := slidingWindowLog{l.Units, l.roomOf(l.Units), l.WindowMicros, ceilDiv(l.WindowMicros, logEntries)}
		return limiter{form: &logForm, log: w}
	},
}

var errLogLease = errors.New("a sliding_window_log has an entry for each request, made when the request comes")

var logForm = form{
	file: "sliding_window_log", lua: slidingWindowLogLua, owes: true,
	args: logArgs[:], reply: usualReply[:], room: "limit",
}

var logArgs = [...]argument{
	{name: "limit", number: func(l *limiter) int64 { return l.log.limit }},
	{name: "window", number: func(l *limiter) int64 { return l.log.window }},
	{name: roomArgument, number: func(l *limiter) int64 { return l.log.room }},
}

// since returns the entries whose last charge came after a time, part of s.
func since(s State, micros int64) State {
	s = s[:len(s)/entryLen*entryLen]
	for len(s) > 0 && s[entryLast] <= micros {
		s = s[entryLen:]
	}
	return s
}

// newestOf is the last entry of a State that has one.
func newestOf(s State) State { return s[len(s)-entryLen:] }

func (w *slidingWindowLog) check(s State, nowMicros, cost int64) Decision {
	s = since(s, nowMicros-w.window)
	used, reset := int64(0), int64(0)
	for rest := s; len(rest) > 0; rest = rest[entryLen:] {
		used += rest[entryUnits]
	}
	if len(s) > 0 {
		reset = newestOf(s)[entryLast] + w.window - nowMicros
	}
	d := uncharged(w.room-used, reset)
	switch {
	case cost <= d.Remaining:
	case cost > w.room:
		d.reject(Never)
	default: // until enough of the oldest entries have left
		wait := int64(Never)
		for excess := used + cost - w.room; len(s) > 0 && excess > 0; s = s[entryLen:] {
			wait = s[entryLast] + w.window - nowMicros
			excess -= s[entryUnits]
		}
		d.reject(wait)
	}
	return d
}

func (w *slidingWindowLog) charge(s State, nowMicros, cost int64, d *Decision) State {
	d.Remaining -= cost
	d.ResetAfterMicros = w.window
	s = append(s[:0], since(s, nowMicros-w.window)...)
	if len(s) > 0 {
		e := newestOf(s)
		if e[entryLast] == nowMicros || len(s)/entryLen >= logEntries && floorTo(nowMicros, w.cell) <= e[entryLast] {
			e[entryLast] = nowMicros
			e[entryUnits] += cost
			return s
		}
	}
	return append(s, nowMicros, nowMicros, cost)
}

// rebase makes all entries of the future one of now.
func (w *slidingWindowLog) rebase(s State, nowMicros int64) (State, bool) {
	s = s[:len(s)/entryLen*entryLen]
	if len(s) == 0 || newestOf(s)[entryLast] <= nowMicros {
		return s, false
	}
	future := since(s, nowMicros-1)
	if len(future) == 0 { // times that cannot be
		return s[:0], true
	}
	units, kept := int64(0), len(s)-len(future)
	for rest := future; len(rest) > 0; rest = rest[entryLen:] {
		units += rest[entryUnits]
	}
	s[kept+entryFirst] = min(s[kept+entryFirst], nowMicros)
	s[kept+entryLast], s[kept+entryUnits] = nowMicros, units
	return s[:kept+entryLen], true
}

// refund takes units off the entry that holds those of a time, as many as there
// are.
func (w *slidingWindowLog) refund(s State, chargedAtMicros, cost int64) State {
	e := since(s, chargedAtMicros-1)
	if len(e) == 0 || e[entryFirst] > chargedAtMicros {
		return s
	}
	if e[entryUnits] > cost {
		e[entryUnits] -= cost
		return s
	}
	at := len(s)/entryLen*entryLen - len(e)
	return append(s[:at], e[entryLen:]...)
}

// debit adds cost to the entry that holds the units of an earlier charge, or else as
// one of its own, but in a log that is full to the next newer one.
func (w *slidingWindowLog) debit(s State, chargedAtMicros, nowMicros, cost int64) State {
	live, used := since(s, nowMicros-w.window), int64(0)
	for rest := live; len(rest) > 0; rest = rest[entryLen:] {
		used += rest[entryUnits]
	}
	at, owed := min(chargedAtMicros, nowMicros), min(cost, 2*w.limit-used)
	if owed <= 0 || at <= nowMicros-w.window {
		return s
	}
	s = append(s[:0], live...)
	newer := since(s, at-1)
	if len(newer) > 0 && (newer[entryFirst] <= at || len(s)/entryLen >= logEntries) {
		newer[entryFirst] = min(newer[entryFirst], at)
		newer[entryUnits] += owed
		return s
	}
	i := len(s) - len(newer)
	s = append(s, 0, 0, 0)
	copy(s[i+entryLen:], s[i:])
	s[i+entryFirst], s[i+entryLast], s[i+entryUnits] = at, at, owed
	return s
}
