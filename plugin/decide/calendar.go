package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// calendars is the layer that knows when the windows of limits with a calendar begin. Each
// call brings three of them, around the time of the store that is asked: of Redis' clock, what
// was last heard of it. A guess that was wrong is put right by its answer (see
// Question.Remake). What is charged keeps the windows that it was charged in: its Receipt has
// them.
type calendars struct {
	sets   []*rule.LimitSet // by rule.LimitSet.ID
	bounds [][]algo.Bounds  // by rule.LimitSet.Index: those that were asked for last
	some   bool             // limits have a calendar
}

func newCalendars(rules *rule.Set) calendars {
	c := calendars{sets: rules.LimitSets, bounds: make([][]algo.Bounds, len(rules.LimitSets))}
	for i, set := range rules.LimitSets {
		if set.Calendars != nil {
			c.bounds[i], c.some = make([]algo.Bounds, len(set.Limits)), true
		}
	}
	return c
}

// fit gives sizes, one for each limit, the calendar windows around a time.
func (c *calendars) fit(set *rule.LimitSet, sizes []algo.Size, micros int64) {
	for i, windows := range set.Calendars {
		if windows == nil {
			continue
		}
		b := &c.bounds[set.ID][i]
		if micros < b[1] || micros >= b[2] {
			*b = windows.Around(micros)
			must.Hold(b[0] < b[1] && b[1] <= micros && micros < b[2], "windows follow each other, and a time is in the second")
		}
		sizes[i].Bounds = *b
	}
}

// sizes are a limit set's configured sizes around a time; nil if it has no calendar.
func (c *calendars) sizes(set rule.LimitSetID, micros int64) []algo.Size {
	limits := c.sets[set]
	if limits.Calendars == nil {
		return nil
	}
	sizes := make([]algo.Size, len(limits.Limits))
	for i := range sizes {
		sizes[i] = limits.Limits[i].Size()
	}
	c.fit(limits, sizes, micros)
	return sizes
}

// GuessesTime reports whether a calendar's windows depend on the wall clock: Redis has never
// told its time.
func (w *Worker) GuessesTime() bool {
	if !w.stores.calendars.some || w.stores.alone() {
		return false
	}
	_, known := w.conn.RedisMicros(0)
	return !known
}
