package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// This file is about the sizes that limits have for one request: those that came with it,
// as an operator's factor multiplies them, in the calendar windows around its time.

// size gives the checks of a question the sizes that their limits have for it.
func (s *Stores) size(q *Question, now Time) {
	s.fitAll(q, now)
	s.multiplyAll(q, now)
}

// fitAll gives the checks of a question the windows around the time of the store that
// will be asked, if there are calendars at all.
func (s *Stores) fitAll(q *Question, now Time) {
	if s.calendars.sets == nil {
		return
	}
	micros := s.storeMicros(now)
	for i := range q.Checks {
		s.calendars.fit(q.Checks[i].Limits, q.Checks[i].Sizes, micros)
	}
}

// planAt is the plan of limits with the sizes that came with the request, if any did, in
// the calendar windows around a time. It is good until the next call.
func (s *Stores) planAt(limits *rule.LimitSet, sizes []algo.Size, micros int64) *algo.Plan {
	s.calendars.fit(limits, sizes, micros)
	return s.planOf(limits, sizes)
}

// planOf is the plan of limits, with the sizes that came with the request, if any
// did. It is good until the next call.
func (s *Stores) planOf(limits *rule.LimitSet, sizes []algo.Size) *algo.Plan {
	if sizes == nil {
		return limits.Plan
	}
	if sized, ok := limits.Plan.Sized(s.sized[limits.Index], sizes); ok {
		return sized
	}
	return limits.Plan // rule never makes such sizes
}

// Sized is a check's limits with the sizes that came with the request, nil if none
// did. It is good until other sizes of these limits are asked about.
func (s *Stores) Sized(c *Check) []algo.Limit {
	if c.Sizes == nil {
		return nil
	}
	return s.planOf(c.Limits, c.Sizes).Limits()
}

// calendars knows when the windows of limits with a calendar begin. Each call brings
// three of them, around the time of the store that is asked: of Redis' clock, what was
// last heard of it. A guess that was wrong is put right by its answer (see
// Question.Resize).
type calendars struct {
	sets   []*rule.LimitSet // all; nil if none has a calendar
	bounds [][]algo.Bounds  // likewise: those that were asked for last
}

func newCalendars(rules *rule.Set) (c calendars) {
	for i, set := range rules.LimitSets {
		if set.Calendars == nil {
			continue
		}
		if c.sets == nil {
			c.sets, c.bounds = rules.LimitSets, make([][]algo.Bounds, len(rules.LimitSets))
		}
		c.bounds[i] = make([]algo.Bounds, len(set.Limits))
	}
	return c
}

// fit gives sizes, one for each limit, the calendar windows around a time.
func (c *calendars) fit(set *rule.LimitSet, sizes []algo.Size, micros int64) {
	for i, windows := range set.Calendars {
		if windows == nil {
			continue
		}
		b := &c.bounds[set.Index][i]
		if micros < b[1] || micros >= b[2] {
			*b = windows.Around(micros)
		}
		sizes[i].Bounds = *b
	}
}

// sizes are those of a list of limits as it is configured, around a time; nil if it
// has no calendar.
func (c *calendars) sizes(list int, micros int64) []algo.Size {
	if c.sets == nil || c.sets[list].Calendars == nil {
		return nil
	}
	set := c.sets[list]
	sizes := make([]algo.Size, len(set.Limits))
	for i := range sizes {
		l := &set.Limits[i]
		sizes[i] = algo.Size{Units: l.Units, Burst: l.Burst}
	}
	c.fit(set, sizes, micros)
	return sizes
}

// GuessesTime reports whether a calendar's windows depend on the wall clock: Redis has
// never told its time.
func (s *Stores) GuessesTime() bool {
	if s.calendars.sets == nil || s.conn == nil {
		return false
	}
	_, known := s.conn.RedisMicros(0)
	return !known
}

// storeMicros is the time of the store that decides: Redis' as last heard, else the
// wall clock's.
func (s *Stores) storeMicros(now Time) int64 {
	if s.conn != nil {
		if micros, known := s.conn.RedisMicros(now.SteadyMicros); known {
			return micros
		}
	}
	return now.UnixMicros
}
