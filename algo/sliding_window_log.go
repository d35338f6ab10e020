package algo

import _ "embed"

//go:embed sliding_window_log.lua
var slidingWindowLogLua string

// slidingWindowLog remembers each unit admitted for one window. Its State is
// pairs of a microsecond and the units charged in it, where the Lua has an entry
// for each unit.
type slidingWindowLog struct {
	limit  int64
	window int64 // us
}

func newSlidingWindowLog(l *Limit) limiter {
	return limiter{
		algorithm: SlidingWindowLog,
		log:       slidingWindowLog{l.Units, l.WindowMicros},
		lua:       slidingWindowLogLua,
		args:      []string{formatInt(l.Units), formatInt(l.WindowMicros)},
	}
}

func (w *slidingWindowLog) check(s State, nowMicros, cost int64) Decision {
	s = since(s, nowMicros-w.window+1)
	used := sumUnits(s)
	d := Decision{Allowed: cost <= w.limit-used, Remaining: max(w.limit-used, 0)}
	if len(s) > 0 {
		d.ResetAfterMicros = s[len(s)-pairLen+pairTime] + w.window - nowMicros
	}
	if !d.Allowed {
		d.RetryAfterMicros = w.retryAfter(s, nowMicros, cost)
	}
	return d
}

// retryAfter is the time until the unit leaves that has limit - cost newer ones.
func (w *slidingWindowLog) retryAfter(s State, nowMicros, cost int64) int64 {
	newer := w.limit - cost
	for ; newer >= 0 && len(s) > 0; s = s[:len(s)-pairLen] {
		pair := s[len(s)-pairLen:]
		if newer -= pair[pairUnits]; newer < 0 {
			return pair[pairTime] + w.window - nowMicros
		}
	}
	return Never
}

func (w *slidingWindowLog) charge(s State, nowMicros, cost int64, d *Decision) State {
	d.Remaining -= cost
	d.ResetAfterMicros = w.window
	return addUnits(dropBefore(s, nowMicros-w.window+1), nowMicros, cost)
}

func (w *slidingWindowLog) refund(s State, chargedAtMicros, _, cost int64) State {
	return removeUnits(s, chargedAtMicros, cost)
}

func (w *slidingWindowLog) expires(s State) int64 {
	if len(s) < pairLen {
		return 0
	}
	return s[len(s)-pairLen+pairTime] + w.window
}
