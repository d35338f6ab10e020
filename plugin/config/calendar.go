package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/message"
)

// longest are the lengths of the periods, but for changes of the clock.
var longest = [...]int64{Day: day, Week: 7 * day, Month: 31 * day, Year: 366 * day}

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
	i := slices.Index(periods, d.spelled)
	if i < 0 {
		d.WindowMicros, _ = v.readDuration(f.low, f.high, "")
		d.Window = algo.FormatDuration(d.WindowMicros)
		if d.has("timezone") || d.has("starts") {
			d.refuse(`belongs to a calendar window only (remove it, or use one of `+quotedList(periods)+` as "window")`,
				"timezone", "starts")
		}
		return
	}

	period := Period(i)
	if d.Algorithm != 0 && !d.Algorithm.HasCalendar() {
		v.mistake(`%s does not belong to %q (want a duration such as "30d", or the algorithm %s)`,
			v.shown(), d.Algorithm, quotedList(algorithmNames(algo.Algorithm.HasCalendar)))
	}
	d.refuse("does not belong to a calendar window, which begins at a local midnight (remove it)", "anchor")
	c := &Calendar{Period: period, Zone: "UTC"}
	if zone, ok := d.field("timezone"); ok {
		c.Zone, ok = zone.readText()
		known, checks := len(c.Zone) <= maxZoneBytes, d.r.checks
		for _, part := range strings.Split(c.Zone, "/") {
			known = known && part != "" && isWord(part, "_+-")
		}
		if ok && (!known || checks.Zone != nil && !checks.Zone(c.Zone)) {
			zone.mistake(`%s is not a time zone (want an IANA name such as "Europe/Berlin")`, zone.shown())
		}
	}
	d.Calendar, d.WindowMicros = c, longest[period]
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
			text, ok := starts.readText()
			month, day, _ := strings.Cut(text, "-")
			m, _ := strconv.Atoi(month)
			d, _ := strconv.Atoi(day)
			known := m >= 1 && m <= len(daysOfMonth) && d >= 1 && d <= daysOfMonth[m-1]
			if known && message.Sprintf("%02d-%02d", m, d) == text {
				c.Month, c.Day = m, d
			} else if ok {
				starts.mistake(`%s is not a day of the year (want month and day, such as "03-17")`, starts.shown())
			}
		}
		d.Window += message.Sprintf(":%02d-%02d", c.Month, c.Day)
	}
	d.CalendarID = d.Window
}

// daysOfMonth are the most days that each month has.
var daysOfMonth = [...]int{31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}

// Bound: bytes of a time zone's name. Beyond it, the configuration is refused. Protects the load of
// a configuration.
const maxZoneBytes = 64
