package calendar

import "math"

// span is a time in which a zone's offset does not change: from begins to before
// ends. All are in seconds.
type span struct{ begins, ends, offset int64 }

// at is the span that a second is in.
func (z *Zone) at(second int64) span {
	s := span{begins: math.MinInt64, ends: math.MaxInt64, offset: z.first}
	for _, t := range z.list {
		if t.at > second {
			s.ends = t.at
			return s
		}
		s.begins, s.offset = t.at, t.offset
	}
	if z.rule == nil {
		return s
	}
	last := s.begins
	s = z.rule.at(second)
	s.begins = max(s.begins, last)
	return s
}

// since is the first second at which the zone's clocks show a local time or a later
// one. local is in seconds as UTC's clocks would show it.
func (z *Zone) since(local int64) int64 {
	s := z.at(local - secondsOfDay) // no zone is as far from UTC as a day
	for local-s.offset >= s.ends {
		s = z.at(s.ends)
	}
	return max(s.begins, local-s.offset)
}

// rule says when a zone changes its clocks each year: POSIX' TZ, as in RFC 9636, section 3.3.1.
type rule struct {
	standard, daylight int64 // offsets, in seconds
	begins, ends       yearly
}

// yearly is a moment of each year, "Mm.w.d/time".
type yearly struct {
	month   int   // from 1
	week    int   // 1 to 5: the last
	weekday int   // 0 is Sunday
	second  int64 // since that day's local midnight; may be below 0, or days later
}

// at is the span that a second is in.
func (r *rule) at(second int64) span {
	year, _, _ := dateOf(floorDiv(second, secondsOfDay))
	s := span{begins: math.MinInt64, ends: math.MaxInt64}
	for y := year - 1; y <= year+1; y++ {
		s.add(second, r.begins.in(y)-r.standard, r.daylight)
		s.add(second, r.ends.in(y)-r.daylight, r.standard)
	}
	return s
}

// add takes a change at a second into account, for the span that another is in.
func (s *span) add(second, change, offset int64) {
	switch {
	case change > second:
		s.ends = min(s.ends, change)
	case change > s.begins:
		s.begins, s.offset = change, offset
	}
}

// in is the moment of a year, in seconds as UTC's clocks would show it.
func (y *yearly) in(year int) int64 {
	day := daysOf(year, y.month, 1)
	day += floorMod(int64(y.weekday)-weekdayOf(day), 7) + int64(y.week-1)*7
	if day >= daysOf(year, y.month, 1)+int64(daysIn(year, y.month)) { // the last is the fourth
		day -= 7
	}
	return day*secondsOfDay + y.second
}
