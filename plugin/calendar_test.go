package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// A worker whose clock is months behind Redis' asks once more, within one check, and
// knows the time from then on.
func TestCalendarOfRedisTime(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(`{"name": "daily", "limits": [{"algorithm": "fixed_window", "limit": 9, "window": "year", ` +
			`"timezone": "Etc/GMT-14", "starts": "02-29"}]}`))
		now := w.clock.now
		r.now = func() time.Time { return now }
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
			beginning := fmt.Sprintf("200 allowed limit=9 remaining=%d ", want.remaining)
			if got := x.end(); !strings.HasPrefix(got, beginning) {
				t.Errorf("a request: %s, want %s...", got, beginning)
			}
		}
		testenv.SameList(t, "the keys", r.keys(""), []string{"rl:{daily|}:fixed_window:year:Etc/GMT-14:02-29"})
	})
}

// A check may be for another time and for another factor, too.
func TestCalendarWithAFactor(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(`{"name": "daily", "overrides": true, ` +
			`"limits": [{"algorithm": "fixed_window", "limit": 9, "window": "year", "timezone": "Asia/Kathmandu"}]}`))
		now := w.clock.now
		r.now = func() time.Time { return now }
		w.clock.now = time.Date(2001, 1, 1, 0, 0, 0, 0, time.UTC)
		r.Set("rl:{daily|}:override", "x2", 0, 0)
		for _, want := range []struct{ messages, remaining int }{
			{4, 17}, // NOSCRIPT, another time, another factor, a decision
			{1, 16},
		} {
			x := i.get("/")
			if got := r.settle(); got != want.messages {
				t.Errorf("%d messages, want %d", got, want.messages)
			}
			beginning := fmt.Sprintf("200 allowed limit=18 remaining=%d ", want.remaining)
			if got := x.end(); !strings.HasPrefix(got, beginning) {
				t.Errorf("a request: %s, want %s...", got, beginning)
			}
		}
	})
}
