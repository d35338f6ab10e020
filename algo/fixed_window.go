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
		lua:       fixedWindowLua, variant: variant,
		args: []string{formatInt(l.Units), formatInt(l.WindowMicros)},
	}
}

// read returns the window now is in, and what it has counted.
func (f *fixedWindow) read(s State, nowMicros int64) (start, used int64) {
	if f.live(s, nowMicros) {
		return s[fixedStart], s[fixedCount]
	}
	if f.fromFirst {
		return nowMicros, 0
	}
	return floorTo(nowMicros, f.window), 0
}

// live says whether the state is of the window that a time is in. A first
// request in the future, after the clock was set back, still counts.
func (f *fixedWindow) live(s State, micros int64) bool {
	if len(s) != fixedLen {
		return false
	}
	if f.fromFirst {
		start := s[fixedStart]
		return micros-start < f.window && start-micros < f.window
	}
	return s[fixedStart] == floorTo(micros, f.window)
}

func (f *fixedWindow) check(s State, nowMicros, cost int64) Decision {
	start, used := f.read(s, nowMicros)
	left := start + f.window - nowMicros
	d := Decision{Allowed: cost <= f.limit-used, Remaining: max(f.limit-used, 0)}
	if used > 0 {
		d.ResetAfterMicros = left
	}
	switch {
	case cost > f.limit:
		d.RetryAfterMicros = Never
	case !d.Allowed:
		d.RetryAfterMicros = left
	}
	return d
}

func (f *fixedWindow) charge(s State, nowMicros, cost int64, d *Decision) State {
	start, used := f.read(s, nowMicros)
	d.Remaining = f.limit - used - cost
	d.ResetAfterMicros = start + f.window - nowMicros
	return append(s[:0], start, used+cost)
}

func (f *fixedWindow) refund(s State, chargedAtMicros, nowMicros, cost int64) State {
	if !f.live(s, nowMicros) || !f.live(s, chargedAtMicros) {
		return s
	}
	if s[fixedCount] <= cost {
		return s[:0]
	}
	s[fixedCount] -= cost
	return s
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
