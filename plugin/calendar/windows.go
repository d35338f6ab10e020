package calendar

import (
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
	n := w.number(floorDiv(second+w.zone.at(second).offset, secondsOfDay))
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

// begin is the second at which a window begins.
func (w *Windows) begin(n int64) int64 { return w.zone.since(w.day(n) * secondsOfDay) }

// number is the window that is at a local day, or next to it.
func (w *Windows) number(day int64) int64 {
	year, month, _ := dateOf(day)
	switch w.limit.Period {
	case config.Week:
		return floorDiv(day-w.firstDay(), 7)
	case config.Month:
		return int64(year*12 + month - 1)
	case config.Year:
		return int64(year)
	}
	return day
}

// day is the local day with which a window begins. Where a month is too short for
// it, that is the month's last.
func (w *Windows) day(n int64) int64 {
	year, month := int(n), w.limit.Month
	switch w.limit.Period {
	case config.Day:
		return n
	case config.Week:
		return n*7 + w.firstDay()
	case config.Month:
		year, month = int(n/12), int(n%12)+1
	}
	return daysOf(year, month, min(w.limit.Day, daysIn(year, month)))
}

// firstDay is a day that is the weekday with which weeks begin.
func (w *Windows) firstDay() int64 { return int64(w.limit.Weekday) - weekdayOf(0) }
