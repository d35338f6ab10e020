package config

import (
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/algo"
)

func TestCalendars(t *testing.T) {
	t.Parallel()
	tests := []struct {
		fields string
		window string
		micros int64
		want   Calendar
	}{
		{fields: `"window": "day"`, window: "day:UTC", micros: day, want: Calendar{Period: Day, Zone: "UTC"}},
		{
			fields: `"window": "week", "timezone": "Europe/Berlin"`, window: "week:Europe/Berlin:monday", micros: 7 * day,
			want: Calendar{Period: Week, Zone: "Europe/Berlin", Weekday: time.Monday},
		},
		{
			fields: `"window": "week", "starts": "sunday"`, window: "week:UTC:sunday", micros: 7 * day,
			want: Calendar{Period: Week, Zone: "UTC", Weekday: time.Sunday},
		},
		{
			fields: `"window": "month"`, window: "month:UTC:1", micros: 31 * day,
			want: Calendar{Period: Month, Zone: "UTC", Day: 1},
		},
		{
			fields: `"window": "month", "timezone": "Europe/Berlin", "starts": 31`, window: "month:Europe/Berlin:31",
			micros: 31 * day,
			want:   Calendar{Period: Month, Zone: "Europe/Berlin", Day: 31},
		},
		{
			fields: `"window": "year"`, window: "year:UTC:01-01", micros: 366 * day,
			want: Calendar{Period: Year, Zone: "UTC", Month: 1, Day: 1},
		},
		{
			fields: `"window": "year", "starts": "02-29"`, window: "year:UTC:02-29", micros: 366 * day,
			want: Calendar{Period: Year, Zone: "UTC", Month: 2, Day: 29},
		},
	}
	for _, tt := range tests {
		t.Run(tt.fields, func(t *testing.T) {
			t.Parallel()
			limit := mustParse(t, "limit", `{"algorithm": "fixed_window", "limit": 5, `+tt.fields+`}`).Rules[0].Limits[0]
			check(t, tt.fields, limit, Limit{
				Limit: algo.Limit{Algorithm: algo.FixedWindow, Units: 5, WindowMicros: tt.micros, CalendarID: tt.window},
				Name:  "r", Window: tt.window, Calendar: &tt.want,
			})
		})
	}
}

func TestChecksZones(t *testing.T) {
	t.Parallel()
	checks := Checks{Zone: func(name string) bool { return name == "Europe/Berlin" }}
	text, _ := whole("limits", []byte(`[
		{"algorithm": "fixed_window", "limit": 5, "window": "day", "timezone": "Europe/Berlin"},
		{"algorithm": "fixed_window", "limit": 5, "window": "week", "timezone": "Europe/Berln"}]`))
	_, err := checks.Parse(text)
	check(t, "mistakes", Lines(err), []string{
		`sluice: rules[0].limits[1].timezone: "Europe/Berln" is not a time zone (want an IANA name such as "Europe/Berlin")`,
	})
}

func TestRetryJitter(t *testing.T) {
	t.Parallel()
	check(t, "absent", mustParse(t, "limit", aLimit).RetryJitterPercent, 0)
	check(t, "0%", mustParse(t, "fields", `{"retry_jitter": "0%"}`).RetryJitterPercent, 0)
	check(t, "10%", mustParse(t, "fields", `{"retry_jitter": "10%"}`).RetryJitterPercent, 10)
}
