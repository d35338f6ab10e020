package calendar

import (
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/plugin/config"
)

type calendar = config.Calendar

// windows has an example of each window in the documentation: the two bounds before a time, and the
// two after it.
var windows = []struct {
	name     string
	calendar calendar
	at       string
	want     [4]string
}{
	{"a day", calendar{Zone: "UTC"}, "2026-11-22T07:00:00Z", [4]string{
		"2026-11-21T00:00:00Z", "2026-11-22T00:00:00Z", "2026-11-23T00:00:00Z", "2026-11-24T00:00:00Z",
	}},
	{"its first moment", calendar{Zone: "Europe/Berlin"}, "2026-11-21T23:00:00Z", [4]string{
		"2026-11-20T23:00:00Z", "2026-11-21T23:00:00Z", "2026-11-22T23:00:00Z", "2026-11-23T23:00:00Z",
	}},
	{"the moment before", calendar{Zone: "Europe/Berlin"}, "2026-11-21T22:59:59Z", [4]string{
		"2026-11-19T23:00:00Z", "2026-11-20T23:00:00Z", "2026-11-21T23:00:00Z", "2026-11-22T23:00:00Z",
	}},
	{"days of 23 hours", calendar{Zone: "Europe/Berlin"}, "2026-03-29T12:00:00Z", [4]string{
		"2026-03-27T23:00:00Z", "2026-03-28T23:00:00Z", "2026-03-29T22:00:00Z", "2026-03-30T22:00:00Z",
	}},
	{"days of 25 hours", calendar{Zone: "Europe/Berlin"}, "2026-10-25T12:00:00Z", [4]string{
		"2026-10-23T22:00:00Z", "2026-10-24T22:00:00Z", "2026-10-25T23:00:00Z", "2026-10-26T23:00:00Z",
	}},
	{"no midnight: 00:00 became 01:00", calendar{Zone: "America/Sao_Paulo"}, "2018-11-04T12:00:00Z", [4]string{
		"2018-11-03T03:00:00Z", "2018-11-04T03:00:00Z", "2018-11-05T02:00:00Z", "2018-11-06T02:00:00Z",
	}},
	{"midnight twice: 01:00 became 00:00", calendar{Zone: "America/Havana"}, "2024-11-03T12:00:00Z", [4]string{
		"2024-11-02T04:00:00Z", "2024-11-03T04:00:00Z", "2024-11-04T05:00:00Z", "2024-11-05T05:00:00Z",
	}},
	{"the second of them", calendar{Zone: "America/Havana"}, "2024-11-03T05:00:00Z", [4]string{
		"2024-11-02T04:00:00Z", "2024-11-03T04:00:00Z", "2024-11-04T05:00:00Z", "2024-11-05T05:00:00Z",
	}},
	{"a day left out", calendar{Zone: "Pacific/Apia"}, "2011-12-30T11:00:00Z", [4]string{ // the 31st
		"2011-12-29T10:00:00Z", "2011-12-30T10:00:00Z", "2011-12-31T10:00:00Z", "2012-01-01T10:00:00Z"}},
	{
		"a week from Monday",
		calendar{Period: config.Week, Weekday: time.Monday, Zone: "UTC"},
		"2026-11-22T07:00:00Z",
		[4]string{
			"2026-11-09T00:00:00Z", "2026-11-16T00:00:00Z", "2026-11-23T00:00:00Z", "2026-11-30T00:00:00Z",
		},
	},
	{
		"a week from Sunday",
		calendar{Period: config.Week, Weekday: time.Sunday, Zone: "UTC"},
		"2026-11-22T07:00:00Z",
		[4]string{
			"2026-11-15T00:00:00Z", "2026-11-22T00:00:00Z", "2026-11-29T00:00:00Z", "2026-12-06T00:00:00Z",
		},
	},
	{"months from the 31st", calendar{Period: config.Month, Day: 31, Zone: "UTC"}, "2026-03-01T00:00:00Z", [4]string{
		"2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z", "2026-03-31T00:00:00Z", "2026-04-30T00:00:00Z",
	}},
	{"and in a leap year", calendar{Period: config.Month, Day: 30, Zone: "UTC"}, "2028-03-01T00:00:00Z", [4]string{
		"2028-01-30T00:00:00Z", "2028-02-29T00:00:00Z", "2028-03-30T00:00:00Z", "2028-04-30T00:00:00Z",
	}},
	{
		"a month before it starts",
		calendar{Period: config.Month, Day: 17, Zone: "UTC"},
		"2026-01-16T23:59:59Z",
		[4]string{
			"2025-11-17T00:00:00Z", "2025-12-17T00:00:00Z", "2026-01-17T00:00:00Z", "2026-02-17T00:00:00Z",
		},
	},
	{"a year", calendar{Period: config.Year, Month: 3, Day: 17, Zone: "UTC"}, "2026-03-16T23:59:59Z", [4]string{
		"2024-03-17T00:00:00Z", "2025-03-17T00:00:00Z", "2026-03-17T00:00:00Z", "2027-03-17T00:00:00Z",
	}},
	{
		"years from the 29th of February",
		calendar{Period: config.Year, Month: 2, Day: 29, Zone: "UTC"},
		"2027-06-01T00:00:00Z",
		[4]string{
			"2026-02-28T00:00:00Z", "2027-02-28T00:00:00Z", "2028-02-29T00:00:00Z", "2029-02-28T00:00:00Z",
		},
	},
	{
		"far from now",
		calendar{Period: config.Year, Month: 1, Day: 1, Zone: "America/New_York"},
		"2399-06-01T00:00:00Z",
		[4]string{
			"2398-01-01T05:00:00Z", "2399-01-01T05:00:00Z", "2400-01-01T05:00:00Z", "2401-01-01T05:00:00Z",
		},
	},
}

func TestAround(t *testing.T) {
	t.Parallel()
	for _, tc := range windows {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w, ok := New(&tc.calendar)
			if !ok {
				t.Fatal("no such zone")
			}
			at, err := time.Parse(time.RFC3339, tc.at)
			if err != nil {
				t.Fatal(err)
			}
			for i, begin := range w.Around(at.UnixMicro()) {
				if got := time.UnixMicro(begin).UTC().Format(time.RFC3339); got != tc.want[i] {
					t.Errorf("bound %d is %s, want %s", i, got, tc.want[i])
				}
			}
		})
	}
}

// A rule holds from the last change that is known, not before it.
func TestRuleBeginsWithTheLastChange(t *testing.T) {
	t.Parallel()
	berlin, _ := Find("Europe/Berlin")
	midnight := daysOf(2030, 5, 1) * secondsOfDay
	z := &Zone{first: -3600, list: []transition{{midnight, 7200}}, rule: berlin.rule}
	if got := z.since(midnight + 3600); got != midnight {
		t.Errorf("01:00, which was left out, is at %d s after the change", got-midnight)
	}
}
