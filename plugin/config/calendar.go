package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/message"
)

// longest is the length of a period, but for changes of the clock.
func (p Period) longest() int64 {
	switch p {
	case Week:
		return 7 * day
	case Month:
		return 31 * day
	case Year:
		return 366 * day
	}
	return day
}

// readWindow reads the window of a limit: a duration, or a calendar window with
// its zone and start.
func (d *draftLimit) readWindow() {
	if d.isSlots() {
		d.spelled = d.Algorithm.String()
		d.refuse("does not belong to "+quoted(d.spelled)+", which counts what is held at a moment (remove it)",
			"window", "timezone", "starts")
		return
	}
	f := d.row("window")
	v, ok := d.field("window")
	if !ok {
		return
	}
	d.spelled = v.json.Str
	if i := slices.Index(periods, d.spelled); i >= 0 {
		d.readCalendar(v, Period(i))
		return
	}
	d.WindowMicros, _ = v.readDuration(f.low, f.high, "")
	d.Window = FormatDuration(d.WindowMicros)
	if d.has("timezone") || d.has("starts") {
		d.refuse(`belongs to a calendar window only (remove it, or use one of `+quotedList(periods)+` as "window")`,
			"timezone", "starts")
	}
}

func (d *draftLimit) readCalendar(window value, period Period) {
	if d.Algorithm != 0 && !d.Algorithm.HasCalendar() {
		window.mistake(`%s does not belong to %q (want a duration such as "30d", or the algorithm %s)`,
			window.shown(), d.Algorithm, quotedList(algorithmNames(algo.Algorithm.HasCalendar)))
	}
	d.refuse("does not belong to a calendar window, which begins at a local midnight (remove it)", "anchor")
	c := &Calendar{Period: period, Zone: "UTC"}
	if v, ok := d.field("timezone"); ok {
		c.Zone, ok = v.readText()
		if ok && (!isZoneName(c.Zone) || v.r.checks.Zone != nil && !v.r.checks.Zone(c.Zone)) {
			v.mistake(`%s is not a time zone (want an IANA name such as "Europe/Berlin")`, v.shown())
		}
	}
	d.Calendar, d.WindowMicros = c, period.longest()
	d.Window = d.spelled + ":" + c.Zone

	starts, ok := d.field("starts")
	switch period {
	case Day:
		d.refuse(`does not belong to the window "day" (remove it)`, "starts")
	case Week:
		place := int64(0)
		if ok {
			place, _ = starts.readWord(weekdays)
		}
		c.Weekday = time.Weekday(place+1) % 7 // weekdays begins on Monday
		d.Window += ":" + weekdays[place]
	case Month:
		c.Day = 1
		if ok {
			day, _ := starts.readWhole(1, 31)
			c.Day = max(int(day), 1)
		}
		d.Window += message.Sprintf(":%d", c.Day)
	case Year:
		c.Month, c.Day = 1, 1
		if ok {
			c.readYearStart(starts)
		}
		d.Window += message.Sprintf(":%02d-%02d", c.Month, c.Day)
	}
	d.CalendarID = d.Window
}

// readYearStart reads a month and a day, "03-17". The 29th of February is one.
func (c *Calendar) readYearStart(v value) {
	text, ok := v.readText()
	if !ok {
		return
	}
	month, day, _ := strings.Cut(text, "-")
	m, _ := strconv.Atoi(month)
	d, _ := strconv.Atoi(day)
	known := m >= 1 && m <= len(daysOfMonth) && d >= 1 && d <= daysOfMonth[m-1]
	if !known || message.Sprintf("%02d-%02d", m, d) != text {
		v.mistake(`%s is not a day of the year (want month and day, such as "03-17")`, v.shown())
		return
	}
	c.Month, c.Day = m, d
}

// daysOfMonth are the most days that each month has.
var daysOfMonth = [...]int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// Bound: bytes of a time zone's name. Beyond it, the configuration is refused. Protects the load of
// a configuration.
const maxZoneBytes = 64

// isZoneName reports whether a name has the form of a zone's name.
func isZoneName(name string) bool {
	for _, part := range strings.Split(name, "/") {
		if part == "" || !isWord(part, "_+-") {
			return false
		}
	}
	return len(name) <= maxZoneBytes
}
