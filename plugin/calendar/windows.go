package calendar

import (
	"math"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// Windows are the windows of a calendar limit, one after another. Each has a number,
// by which they are in order: the day, the week, the month or the year.
type Windows struct {
	zone  *Zone
	limit config.Calendar
}

// New are the windows of c. ok is false if nothing is known of its zone.
func New(c *config.Calendar) (w *Windows, ok bool) {
	zone, ok := Find(c.Zone)
	return &Windows{zone: zone, limit: *c}, ok
}

// Around is the window that a time is in, between the one before and the one after:
// when each begins, and when the last ends. All are in microseconds.
func (w *Windows) Around(micros int64) (b algo.Bounds) {
	second := floorDiv(micros, 1e6)
	day := floorDiv(second+w.zone.at(second).offset, secondsOfDay)
	year, month, _ := dateOf(day)
	n := day // a window that is at this day, or next to it
	switch w.limit.Period {
	case config.Week:
		n = floorDiv(day-w.firstDay(), 7)
	case config.Month:
		n = int64(year*12 + month - 1)
	case config.Year:
		n = int64(year)
	}
	for w.begin(n) > second {
		n--
	}
	for w.begin(n+1) <= second {
		n++
	}
	begin := w.begin(n)
	before := n - 1
	for w.begin(before) == begin { // a day that was left out
		before--
	}
	b[0], b[1] = w.begin(before)*1e6, begin*1e6
	for i := 2; i < len(b); i++ {
		for w.begin(n)*1e6 == b[i-1] {
			n++
		}
		b[i] = w.begin(n) * 1e6
	}
	return b
}

// begin is the second at which a window begins. Where a month is too short for its day, that is the
// month's last.
func (w *Windows) begin(n int64) int64 {
	year, month, day := int(n), w.limit.Month, n
	switch w.limit.Period {
	case config.Week:
		day = n*7 + w.firstDay()
	case config.Month:
		year, month = int(n/12), int(n%12)+1
		fallthrough
	case config.Year:
		day = daysOf(year, month, min(w.limit.Day, daysIn(year, month)))
	}
	return w.zone.since(day * secondsOfDay)
}

// firstDay is a day that is the weekday with which weeks begin.
func (w *Windows) firstDay() int64 { return int64(w.limit.Weekday) - weekdayOf(0) }

// How a zone's clocks change.

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
	last, r := s.begins, z.rule
	year, _, _ := dateOf(floorDiv(second, secondsOfDay))
	s = span{begins: math.MinInt64, ends: math.MaxInt64}
	for y := year - 1; y <= year+1; y++ {
		s.add(second, r.begins.in(y)-r.standard, r.daylight)
		s.add(second, r.ends.in(y)-r.daylight, r.standard)
	}
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

// Dates of the Gregorian calendar, as days since 1970-01-01. Package time has them,
// too, and would bring the loading of zones with it.

const secondsOfDay = 86_400

func floorDiv(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}

func floorMod(a, b int64) int64 { return a - floorDiv(a, b)*b }

// daysOf is the day of a date.
// https://howardhinnant.github.io/date_algorithms.html#days_from_civil
func daysOf(year, month, day int) int64 {
	if month <= 2 {
		year--
	}
	era := floorDiv(int64(year), 400)
	yearOfEra := int64(year) - era*400
	dayOfYear := int64((153*((month+9)%12)+2)/5 + day - 1) // from the 1st of March
	return era*146_097 + yearOfEra*365 + yearOfEra/4 - yearOfEra/100 + dayOfYear - 719_468
}

// dateOf is the date of a day.
// https://howardhinnant.github.io/date_algorithms.html#civil_from_days
func dateOf(days int64) (year, month, day int) {
	days += 719_468
	era := floorDiv(days, 146_097)
	dayOfEra := days - era*146_097
	yearOfEra := (dayOfEra - dayOfEra/1460 + dayOfEra/36_524 - dayOfEra/146_096) / 365
	dayOfYear := dayOfEra - (365*yearOfEra + yearOfEra/4 - yearOfEra/100)
	m := (5*dayOfYear + 2) / 153
	year, month, day = int(yearOfEra+era*400), int(m+2)%12+1, int(dayOfYear-(153*m+2)/5+1)
	if month <= 2 {
		year++
	}
	return year, month, day
}

// daysIn is how many days a month has.
func daysIn(year, month int) int {
	next := year*12 + month // months since the year 0, of the next one
	return int(daysOf(next/12, next%12+1, 1) - daysOf(year, month, 1))
}

// weekdayOf is the weekday of a day: 0 is Sunday.
func weekdayOf(days int64) int64 { return floorMod(days+4, 7) }
