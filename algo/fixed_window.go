package algo

import _ "embed"

//go:embed fixed_window.lua
var fixedWindowLua string

// fixedWindow counts the units of one window, which starts at a multiple of its
// length since the Unix epoch, or with its first request.
type fixedWindow struct {
	limit     int64
	window    int64 // us
	fromFirst bool
}

// A fixedWindow's State.
const (
	fixedStart = iota // us since the Unix epoch
	fixedCount        // units charged since
	fixedLen
)

func newFixedWindow(l *Limit) limiter {
	variant := "clock"
	if l.FromFirstRequest {
		variant = "first_request"
	}
	return limiter{
		algorithm: FixedWindow,
		fixed:     fixedWindow{l.Units, l.WindowMicros, l.FromFirstRequest},
		name:      "fixed_window", lua: fixedWindowLua, variant: variant,
		args: fixedArgs[:],
	}
}

var fixedArgs = [...]argument{
	func(dst []byte, l *limiter) []byte { return appendInt(dst, l.fixed.limit) },
	func(dst []byte, l *limiter) []byte { return appendInt(dst, l.fixed.window) },
}

// read returns the window now is in, and what it has counted.
func (f *fixedWindow) read(s State, nowMicros int64) (start, used int64) {
	switch {
	case f.live(s, nowMicros):
		return min(s[fixedStart], nowMicros), s[fixedCount]
	case f.fromFirst:
		return nowMicros, 0
	}
	return floorTo(nowMicros, f.window), 0
}

// live reports whether the state is of the window that now is in. A first request
// in the future, made before the clock was set back, came now.
func (f *fixedWindow) live(s State, nowMicros int64) bool {
	if len(s) != fixedLen {
		return false
	}
	if f.fromFirst {
		return s[fixedCount] > 0 && nowMicros-s[fixedStart] < f.window
	}
	return s[fixedStart] == floorTo(nowMicros, f.window)
}

func (f *fixedWindow) check(s State, nowMicros, cost int64) Decision {
	start, used := f.read(s, nowMicros)
	left, reset := start+f.window-nowMicros, int64(0)
	if used > 0 {
		reset = left
	}
	d := uncharged(f.limit-used, reset)
	switch {
	case cost <= d.Remaining:
	case cost > f.limit:
		d.reject(Never)
	default:
		d.reject(left)
	}
	return d
}

func (f *fixedWindow) charge(s State, nowMicros, cost int64, d *Decision) State {
	start, used := f.read(s, nowMicros)
	d.charged(cost, start+f.window-nowMicros)
	return append(s[:0], start, used+cost)
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
	if after := chargedAtMicros - s[fixedStart]; after < 0 || after >= f.window {
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
	} else if len(s) == fixedLen && s[fixedStart] != start && nowMicros/1000 <= f.expires(s)/1000 {
		return s // of another window, which the clock was in before it was set back
	}
	if owed <= 0 || !within(chargedAtMicros, start, start+f.window-1) || nowMicros-start >= f.window {
		return s
	}
	return append(s[:0], start, used+owed)
}

func (f *fixedWindow) expires(s State) int64 {
	if len(s) != fixedLen {
		return 0
	}
	return s[fixedStart] + f.window
}

// floorTo rounds a time down to a multiple of step.
func floorTo(micros, step int64) int64 {
	rest := micros % step
	if rest < 0 {
		rest += step
	}
	return micros - rest
}
