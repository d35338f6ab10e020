package algo

import (
	_ "embed"
	"errors"
	"math"
	"math/bits"
)

//go:embed sliding_window_counter.lua
var slidingWindowCounterLua string

// slidingWindowCounter counts the units of each of the N sub-windows of a
// window. The window that ends now holds N of them whole, the current one as far
// as it has come; of the one before it only the part that has not left yet, and
// its units are taken to be spread evenly:
//
//	whole + part * (size - off) / size + cost <= limit
//
// where off is how far now is into the current sub-window. To stay exact in
// Lua's doubles all is multiplied by size. Where limit * size would not fit,
// time is measured in steps of more than a microsecond: off is rounded down and
// size up, so that the part is never taken for smaller than it is, nor for
// larger by more than 1/2^21.
//
// Its State is pairs of a sub-window's start and the units charged in it.
type slidingWindowCounter struct {
	limit  int64
	room   int64 // of the request's class: the limit, where there are none
	size   int64 // of a sub-window, us
	window int64 // N * size, us
	step   int64 // us, a power of two
	steps  int64 // size / step, rounded up
}

// maxProduct bounds limit * steps: half of what doubles count exactly.
//
// Bound: limit times steps of a window. Beyond it, steps are longer than 1 us. Protects exact
// doubles.
const maxProduct = 1 << 52

// slidingWindowCounterAlgorithm is the row of sliding_window_counter.
var slidingWindowCounterAlgorithm = algorithm{
	name: "sliding_window_counter", fields: common | 1<<FieldSubWindows, windows: ownWindow,
	leasable: func(*Limit) error { return errCounterLease },
	longer:   unknownWait,
	// At most a window while units are left. With none left it may be longer: after one window the units
	// of a sub-window that has just begun to leave still count.
	lasts: func(l *Limit, d *Decision, atMicros int64) int64 {
		micros := untilReset(l, d, atMicros)
		if d.Remaining > 0 {
			return min(micros, l.WindowMicros)
		}
		return micros
	},
	make: func(l *Limit) limiter {
		form := &counterForm
		if l.SubWindows > 1 {
			form = &subWindowsForm
		}
		c := slidingWindowCounter{limit: l.Units, room: l.roomOf(l.Units), window: l.WindowMicros}
		c.size = c.window / max(l.SubWindows, 1)
		c.scale(c.room)
		return limiter{form: form, counter: c}
	},
}

var errCounterLease = errors.New("a sliding_window_counter weighs requests by when they come")

// The forms of sliding_window_counter.
var (
	counterForm = form{
		file: "sliding_window_counter", lua: slidingWindowCounterLua, variant: "one", owes: true,
		args: counterArgs[:], reply: usualReply[:], room: "limit",
	}
	subWindowsForm = form{
		file: "sliding_window_counter", lua: slidingWindowCounterLua, variant: "several", owes: true,
		args: subWindowsArgs[:], reply: usualReply[:], room: "limit",
	}
)

// scale chooses the steps in which so many units are compared.
func (c *slidingWindowCounter) scale(units int64) {
	c.step = 1
	for c.steps = c.size; c.steps > maxProduct/max(units, 1); c.steps = ceilDiv(c.size, c.step) {
		c.step *= 2
	}
}

var subWindowsArgs = [...]argument{
	{name: "limit", number: counterLimit},
	{name: "size", number: counterSize},
	{name: "n", number: func(l *limiter) int64 { return l.counter.window / l.counter.size }, text: true},
	{name: roomArgument, number: counterRoom},
}

var counterArgs = [...]argument{
	{name: "limit", number: counterLimit},
	{name: "size", number: counterSize},
	{name: roomArgument, number: counterRoom},
}

func counterLimit(l *limiter) int64 { return l.counter.limit }
func counterSize(l *limiter) int64  { return l.counter.size }
func counterRoom(l *limiter) int64  { return l.counter.room }

// tally is the count of a state at one instant.
type tally struct {
	start  int64 // of the current sub-window, us
	newest int64 // start of the newest sub-window that counts, us
	any    bool  // whether there is one
	whole  int64 // units of the sub-windows that count whole
	part   int64 // units of the one partly outside the window
	weight int64 // steps of that one that are left
}

func (c *slidingWindowCounter) tally(s State, nowMicros int64) tally {
	t := tally{start: floorTo(nowMicros, c.size)}
	t.weight = c.steps - (nowMicros-t.start)/c.step
	for ; len(s) >= pairLen; s = s[pairLen:] {
		age := t.start - s[pairTime]
		if !c.counts(age) {
			continue
		}
		if age < c.window {
			t.whole += s[pairUnits]
		} else {
			t.part = s[pairUnits]
		}
		t.newest, t.any = s[pairTime], true
	}
	return t
}

// free is how much fits below a number of units, in units * steps; negative if nothing does.
func (c *slidingWindowCounter) free(units int64, t *tally) int64 {
	if t.whole > units {
		return -1
	}
	room := (units - t.whole) * c.steps
	hi, part := bits.Mul64(uint64(t.part), uint64(t.weight))
	if hi > 0 || part > uint64(room) {
		return -1
	}
	return room - int64(part)
}

func (c *slidingWindowCounter) check(s State, nowMicros, cost int64) Decision {
	t, reset := c.tally(s, nowMicros), int64(0)
	if t.any {
		reset = t.newest + c.size + c.window - nowMicros
	}
	d := uncharged(max(c.free(c.room, &t), 0)/c.steps, reset)
	switch {
	case cost <= d.Remaining:
	case cost > c.room:
		d.reject(Never)
	default:
		// As time goes on the window holds ever newer sub-windows in part. The first that leaves room for all
		// newer ones is the one whose weight must fall.
		room, part := c.room-cost, t.start
		for ; part > t.start-c.window; part -= c.size {
			units := unitsAt(s, part)
			if room < units {
				break
			}
			room -= units
		}
		most := room * c.steps / max(unitsAt(s, part), 1)
		d.reject(part + c.window + min((c.steps-most)*c.step, c.size) - nowMicros)
	}
	return d
}

func (c *slidingWindowCounter) charge(s State, nowMicros, cost int64, d *Decision) State {
	start := floorTo(nowMicros, c.size)
	d.Remaining -= cost
	d.ResetAfterMicros = start + c.size + c.window - nowMicros
	return addUnits(c.within(s, start), start, cost)
}

// within drops what does not count, in place: sub-windows that have left, and
// those of the future, made before the clock was set back.
func (c *slidingWindowCounter) within(s State, start int64) State {
	kept := s[:0]
	for ; len(s) >= pairLen; s = s[pairLen:] {
		if c.counts(start - s[pairTime]) {
			kept = append(kept, s[:pairLen]...)
		}
	}
	return kept
}

// counts reports whether a sub-window that started age microseconds before the
// current one still counts.
func (c *slidingWindowCounter) counts(age int64) bool {
	return age >= 0 && age <= c.window && age%c.size == 0
}

// rebase makes the units of sub-windows of the future those of the current one.
func (c *slidingWindowCounter) rebase(s State, nowMicros int64) (State, bool) {
	s = s[:len(s)/pairLen*pairLen]
	start := floorTo(nowMicros, c.size)
	if len(s) == 0 || s[len(s)-pairLen+pairTime] <= start {
		return s, false
	}
	var units int64
	newest, kept := s[len(s)-pairLen+pairTime], s[:0]
	for ; len(s) >= pairLen; s = s[pairLen:] {
		switch {
		case newest-s[pairTime] > c.window: // had left already
		case s[pairTime] >= start:
			units += s[pairUnits]
		default:
			kept = append(kept, s[:pairLen]...)
		}
	}
	return append(kept, start, min(units, math.MaxUint32)), true
}

// refund takes units off those of a sub-window, as many as there are.
func (c *slidingWindowCounter) refund(s State, chargedAtMicros, nowMicros, cost int64) State {
	start := floorTo(chargedAtMicros, c.size)
	if floorTo(nowMicros, c.size)-start > c.window {
		return s
	}
	for i := 0; i+pairLen <= len(s); i += pairLen {
		if s[i+pairTime] != start {
			continue
		}
		if s[i+pairUnits] -= cost; s[i+pairUnits] <= 0 {
			s = append(s[:i], s[i+pairLen:]...)
		}
		break
	}
	return s
}

// debit charges cost in the sub-window of an earlier charge, if that still counts.
func (c *slidingWindowCounter) debit(s State, chargedAtMicros, nowMicros, cost int64) State {
	if c.room != c.limit { // a class's steps are not the limit's
		own := *c
		own.room = c.limit
		own.scale(c.limit)
		c = &own
	}
	t := c.tally(s, nowMicros)
	at := floorTo(min(chargedAtMicros, nowMicros), c.size)
	owed := min(cost, c.free(2*c.limit, &t)/c.steps)
	if owed <= 0 || t.start-at > c.window {
		return s
	}
	s = c.within(s, t.start)
	return addUnits(s, at, min(owed, math.MaxUint32-unitsAt(s, at)))
}
