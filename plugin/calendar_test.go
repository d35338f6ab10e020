package main

import (
	"slices"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// The embedded store's days are those of a zone: the one in which clocks go forward
// has 23 hours.
func TestCalendarDays(t *testing.T) {
	t.Parallel()
	const toSaturdayNoon = 27 * 24 * time.Hour // the tests' clock begins at noon of the 1st of March 2026
	day := func(remaining, w, reset int) []member { return []member{{"daily", 2, w, remaining, reset}} }
	scenario{
		name: "days of 24 and of 23 hours",
		config: `"headers": ["draft"], "rules": [{"name": "daily", "limits": [
			{"algorithm": "fixed_window", "limit": 2, "window": "day", "timezone": "Europe/Berlin"}]}]`,
		steps: []step{
			{after: toSaturdayNoon, want: result{Status: 200, Outcome: "allowed", Draft: day(1, 86400, 11*3600)}},
			{after: 11*time.Hour - time.Second, want: result{Status: 200, Outcome: "allowed", Draft: day(0, 86400, 1)}},
			{want: result{Status: 429, Outcome: "limited:daily", Draft: day(0, 86400, 1), RetryAfter: 1}},
			{after: time.Second, want: result{Status: 200, Outcome: "allowed", Draft: day(1, 82800, 23*3600)}},
			{after: 23*time.Hour - time.Millisecond, want: result{Status: 200, Outcome: "allowed", Draft: day(0, 82800, 1)}},
			{after: time.Millisecond, want: result{Status: 200, Outcome: "allowed", Draft: day(1, 86400, 86400)}},
		},
	}.run(t)
}

// A worker whose clock is months behind Redis' asks once more, within one check, and
// knows the time from then on.
func TestCalendarOfRedisTime(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(`{"name": "daily", "limits": [{"algorithm": "fixed_window", "limit": 9, "window": "year", ` +
			`"timezone": "Etc/GMT-14", "starts": "02-29"}]}`))
		w.clock.now = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		for _, want := range []struct{ messages, remaining int }{
			{3, 8}, // NOSCRIPT, another time, a decision
			{1, 7},
			{1, 6},
		} {
			x := i.get("/")
			if got := r.settle(); got != want.messages {
				t.Errorf("%d messages, want %d", got, want.messages)
			}
			got := x.end()
			testenv.Same(t, "the status", got.Status, 200)
			testenv.Same(t, "the outcome", got.Outcome, "allowed")
			testenv.Same(t, "what remains", got.Remaining, want.remaining)
		}
		if got, want := r.keys(), []string{"rl:{daily|}:fixed_window:year:Etc/GMT-14:02-29"}; !slices.Equal(got, want) {
			t.Errorf("keys %q, want %q", got, want)
		}
	})
}

// A calendar's limit may come with the request, and be a tier's: tiers of other zones
// count apart.
func TestCalendarTiers(t *testing.T) {
	t.Parallel()
	plan := func(name, limit string) []string { return []string{"x-plan", name, "x-limit", limit} }
	scenario{
		name: "months from the 31st, and years",
		config: `"headers": ["draft"], "rules": [{"name": "plan", "limits_by": {"source": {"header": "x-plan"}, "values": {
			"month": [{"algorithm": "fixed_window", "window": "month", "starts": 31,
				"limit": {"header": "x-limit", "default": 1, "max": 10}}],
			"year": [{"algorithm": "fixed_window", "window": "year", "timezone": "Asia/Tokyo", "limit": 5}]}}}]`,
		steps: []step{
			{
				headers: plan("month", "3"),
				want:    result{Status: 200, Outcome: "allowed", Draft: []member{{"plan", 3, 31 * 86400, 2, 29*86400 + 43200}}},
			},
			{
				headers: plan("month", "2"),
				want:    result{Status: 200, Outcome: "allowed", Draft: []member{{"plan", 2, 31 * 86400, 0, 29*86400 + 43200}}},
			},
			{
				headers: plan("year", "2"),
				want:    result{Status: 200, Outcome: "allowed", Draft: []member{{"plan", 5, 365 * 86400, 4, 305*86400 + 3*3600}}},
			},
			{
				headers: plan("month", "9"),
				want:    result{Status: 200, Outcome: "allowed", Draft: []member{{"plan", 9, 31 * 86400, 6, 29*86400 + 43200}}},
			},
			{
				headers: plan("month", "0"),
				want:    result{Status: 429, Outcome: "limited:plan", Draft: []member{{"plan", 0, 31 * 86400, 0, 0}}},
			},
		},
	}.run(t)
}

// A check may be for another time and for another factor, too.
func TestCalendarWithAFactor(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(`{"name": "daily", "overrides": true, ` +
			`"limits": [{"algorithm": "fixed_window", "limit": 9, "window": "year", "timezone": "Asia/Kathmandu"}]}`))
		w.clock.now = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		if err := r.client().Set(t.Context(), "rl:{daily|}:override", "x2", 0).Err(); err != nil {
			t.Fatal(err)
		}
		for _, want := range []struct{ messages, remaining int }{
			{4, 17}, // NOSCRIPT, another time, another factor, a decision
			{1, 16},
		} {
			x := i.get("/")
			if got := r.settle(); got != want.messages {
				t.Errorf("%d messages, want %d", got, want.messages)
			}
			got := x.end()
			testenv.Same(t, "the status", got.Status, 200)
			testenv.Same(t, "the limit", got.Limit, 18)
			testenv.Same(t, "what remains", got.Remaining, want.remaining)
		}
	})
}
