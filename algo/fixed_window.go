package algo

import _ "embed"

//go:embed fixed_window.lua
var fixedWindowLua string

// fixedWindow counts the units of one window, which starts at a multiple of its
// length since the Unix epoch, with its first request, or with a calendar's.
type fixedWindow struct {
	limit     int64
	room      int64 // of the request's class: the limit, where there are none
	window    int64 // us
	fromFirst bool
	calendar  bool
	bounds    Bounds // of the calendar's windows
}

// A fixedWindow's State.
const (
	fixedStart = iota // us since the Unix epoch
	fixedCount        // units charged since
	fixedLen
	fixedEnd    = iota - 1 // when it ends; calendar windows only
	calendarLen = iota - 1
)

// fixedWindowAlgorithm is the row of fixed_window.
var fixedWindowAlgorithm = algorithm{
	name: "fixed_window", fields: common | 1<<FieldAnchor, windows: orCalendar,
	leasable: func(*Limit) error { return nil },
	longer: func(_ *Limit, _, retryAfterMicros int64) (int64, bool) {
		return retryAfterMicros, true // all of it comes back at once
	},
	// How long the window still lasts; a whole one if no request has begun it.
	lasts: func(l *Limit, d *Decision, atMicros int64) int64 {
		switch {
		case d.ResetAfterMicros > 0:
			return d.ResetAfterMicros
		case d.EndsMicros > 0:
			return d.EndsMicros - atMicros
		case l.FromFirstRequest:
			return l.WindowMicros
		}
		return l.WindowMicros - atMicros%l.WindowMicros
	},
	make: func(l *Limit) limiter {
		f := fixedWindow{l.Units, l.roomOf(l.Units), l.WindowMicros, l.FromFirstRequest, l.CalendarID != "", l.Bounds}
		form := &clockForm
		switch {
		case f.calendar:
			form = &calendarForm
		case f.fromFirst:
			form = &firstRequestForm
		}
		return limiter{form: form, fixed: f}
	},
}

// The forms of fixed_window.
var (
	clockForm = form{
		file: "fixed_window", lua: fixedWindowLua, variant: "clock", owes: true,
		args: fixedArgs[:], reply: usualReply[:], room: "limit",
	}
	firstRequestForm = form{
		file: "fixed_window", lua: fixedWindowLua, variant: "first_request", owes: true,
		args: fixedArgs[:], reply: usualReply[:], room: "limit",
	}
	calendarForm = form{
		file: "fixed_window", lua: fixedWindowLua, variant: "calendar", owes: true,
		args: calendarArgs[:], reply: calendarReply[:], room: "limit",
	}
)

var calendarReply = [...]replyField{replyRemaining, replyReset, replyRetry, replyBefore, replyStart}

func fixedRoom(l *limiter) int64 { return l.fixed.room }

var calendarArgs = [...]argument{
	{name: "limit", number: func(l *limiter) int64 { return l.fixed.limit }},
	{name: "first", number: func(l *limiter) int64 { return l.fixed.bounds[0] }, text: true},
	{name: "second", number: func(l *limiter) int64 { return l.fixed.bounds[1] }, text: true},
	{name: "third", number: func(l *limiter) int64 { return l.fixed.bounds[2] }, text: true},
	{name: "last", number: func(l *limiter) int64 { return l.fixed.bounds[3] }, text: true},
	{name: roomArgument, number: fixedRoom},
}

var fixedArgs = [...]argument{
	{name: "limit", number: func(l *limiter) int64 { return l.fixed.limit }},
	{name: "window", number: func(l *limiter) int64 { return l.fixed.window }},
	{name: roomArgument, number: fixedRoom},
}

// read returns the window now is in, and what it has counted.
func (f *fixedWindow) read(s State, nowMicros int64) (start, used int64) {
	switch {
	case f.live(s, nowMicros):
		return min(s[fixedStart], nowMicros), s[fixedCount]
	case f.fromFirst:
		return nowMicros, 0
	}
	return f.begin(nowMicros), 0
}

// begin is when the window begins that a time is in, unless its first request has
// begun it.
func (f *fixedWindow) begin(micros int64) int64 {
	if f.calendar {
		begins, _ := f.bounds.window(micros)
		return begins
	}
	return floorTo(micros, f.window)
}

// end is when the window that begins at a time ends. A state of that window says so
// itself, because the bounds may be those of another time.
func (f *fixedWindow) end(s State, begins int64) int64 {
	switch {
	case !f.calendar:
		return begins + f.window
	case len(s) == calendarLen && s[fixedStart] == begins:
		return s[fixedEnd]
	}
	_, ends := f.bounds.window(begins)
	return ends
}

// isState reports whether the state may be one that f has written.
func (f *fixedWindow) isState(s State) bool {
	return !f.calendar && len(s) == fixedLen || f.calendar && len(s) == calendarLen
}

// live reports whether the state belongs to the window that contains now. A first request
// in the future, made before the clock was set back, came now.
func (f *fixedWindow) live(s State, nowMicros int64) bool {
	if !f.isState(s) {
		return false
	}
	if f.fromFirst {
		return s[fixedCount] > 0 && nowMicros-s[fixedStart] < f.window
	}
	return s[fixedStart] == f.begin(nowMicros)
}

func (f *fixedWindow) check(s State, nowMicros, cost int64) Decision {
	start, used := f.read(s, nowMicros)
	end := f.end(s, start)
	left, reset := end-nowMicros, int64(0)
	if used > 0 {
		reset = left
	}
	d := uncharged(f.room-used, reset)
	if f.calendar {
		d.BeginsMicros, d.EndsMicros = start, end
	}
	switch {
	case cost <= d.Remaining:
	case cost > f.room:
		d.reject(Never)
	default:
		d.reject(left)
	}
	return d
}

func (f *fixedWindow) charge(s State, nowMicros, cost int64, d *Decision) State {
	start, used := f.read(s, nowMicros)
	end := f.end(s, start)
	d.Remaining -= cost
	d.ResetAfterMicros = end - nowMicros
	return f.state(s, start, used+cost, end)
}

// state writes a window's state, in s.
func (f *fixedWindow) state(s State, start, used, end int64) State {
	s = append(s[:0], start, used)
	if f.calendar {
		s = append(s, end)
	}
	return s
}

// rebase makes a window that starts in the future one that starts now.
func (f *fixedWindow) rebase(s State, nowMicros int64) (State, bool) {
	if !f.fromFirst || !f.live(s, nowMicros) || s[fixedStart] <= nowMicros {
		return s, false
	}
	s[fixedStart] = nowMicros
	return s, true
}

// refund gives back what was charged in the window that now is in.
func (f *fixedWindow) refund(s State, chargedAtMicros, nowMicros, cost int64) State {
	if !f.live(s, nowMicros) {
		return s
	}
	if chargedAtMicros < s[fixedStart] || chargedAtMicros >= f.end(s, s[fixedStart]) {
		return s
	}
	if s[fixedCount] <= cost {
		return s[:0]
	}
	s[fixedCount] -= cost
	return s
}

// debit charges cost in the window of an earlier charge, if now is still in it.
func (f *fixedWindow) debit(s State, chargedAtMicros, nowMicros, cost int64) State {
	start, used := f.read(s, nowMicros)
	owed := min(cost, 2*f.limit-used)
	if f.fromFirst {
		chargedAtMicros = min(chargedAtMicros, nowMicros)
		if used == 0 {
			start = chargedAtMicros // the charge has begun a window
		}
	} else if f.isState(s) && s[fixedStart] != start && nowMicros/1000 <= f.expires(s)/1000 {
		return s // of another window, which the clock was in before it was set back
	}
	end := f.end(s, start)
	if owed <= 0 || !within(chargedAtMicros, start, end-1) || nowMicros >= end {
		return s
	}
	return f.state(s, start, used+owed, end)
}

func (f *fixedWindow) expires(s State) int64 {
	if !f.isState(s) {
		return 0
	}
	return f.end(s, s[fixedStart])
}

// floorTo rounds a time down to a multiple of step.
func floorTo(micros, step int64) int64 {
	rest := micros % step
	if rest < 0 {
		rest += step
	}
	return micros - rest
}
