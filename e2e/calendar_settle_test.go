package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestCookbookMonths: the recipe, on a day of the month on which no window begins, and
// on the clock that says so.
func TestCookbookMonths(t *testing.T) {
	t.Parallel()
	begins, _ := berlin(t)
	server := redistest.Start(t)
	noon := time.Date(begins.Year(), 2, 28, 12, 0, 0, 0, begins.Location()) // its last day: the month begins
	clock := newRedisClock(t, server.Addr, noon)
	recipe := strings.Replace(cookbook(t, "Quotas by the month"), `"redis": {"cluster": "redis"},`, patient, 1)
	e := start(t, recipe, envoytest.Options{Redis: []string{clock.wire.addr}})
	r := get(t, e.URL, "x-api-key: a")
	for name, want := range map[string]string{
		"ratelimit-policy": `"monthly";q=100000;w=2674800, "daily";q=10000;w=86400`, // 31 days, one of them of 23 hours
		"ratelimit":        `"monthly";r=99999;t=2631600, "daily";r=9999;t=43200`,
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// TestCalendarSettles: what a response turns out to have cost belongs to the window in
// which it was asked for, and to no later one.
func TestCalendarSettles(t *testing.T) {
	t.Parallel()
	begins, ends := berlin(t)
	server := redistest.Start(t)
	clock := newRedisClock(t, server.Addr, begins)
	s := start(t, `{`+patient+`"deny_cache": {"size": 0},
		"rules": [{"name": "daily", "cost": 10, "settle": {"cost": {"header": "x-tokens", "max": 1000}},
		"limits": [{"algorithm": "fixed_window", "limit": 100, "window": "day", "timezone": "Europe/Berlin"}]}]}`,
		envoytest.Options{
			Redis: []string{clock.wire.addr}, Workers: 1,
			Upstream: envoytest.NewUpstream(t, http.HandlerFunc(obedient)).Addr,
		})
	for _, tc := range []struct {
		name        string
		asked, ends time.Time
		worth       string
		left        int64 // in the window of the end
		scripts     int   // checks, and a settlement
	}{
		{"less", begins, begins.Add(time.Hour), "3", 97, 3},
		{"more", begins.Add(2 * time.Hour), begins.Add(3 * time.Hour), "30", 67, 2},
		{"less, but on the next day", ends.Add(-time.Second), ends.Add(time.Second), "3", 100, 2},
		{"more, at the window's end", ends.AddDate(0, 0, 1).Add(-time.Second), ends.AddDate(0, 0, 1), "90", 100, 2},
	} {
		clock.set(tc.asked)
		before := clock.scripts.Load()
		done := make(chan reply)
		go func() {
			r, err := send(ctx, shared, s.URL, "x-worth: "+tc.worth, "x-pause: 300ms")
			if err != nil {
				t.Error(err)
			}
			done <- r
		}()
		testenv.Wait(t, patience, func() error { return atLeast(int(clock.scripts.Load()-before), 1, "checks") })
		clock.set(tc.ends)
		if r := <-done; r.status != http.StatusOK {
			t.Errorf("%s: status %d", tc.name, r.status)
		}
		testenv.Wait(t, patience, func() error { return atLeast(int(clock.scripts.Load()-before), tc.scripts, "scripts") })
		testenv.Wait(t, patience, func() error {
			if got := 100 - countedOn(t, server.Client(), tc.ends); got != tc.left {
				return fmt.Errorf("%s: %d units are left, want %d", tc.name, got, tc.left)
			}
			return nil
		})
	}
}

// countedOn is the count of the quota "daily" on the day of a time.
func countedOn(t *testing.T, client *redis.Client, at time.Time) int64 {
	t.Helper()
	value, err := client.Get(ctx, "rl:{daily|}:fixed_window:day:Europe/Berlin").Int64()
	if err != nil && err != redis.Nil {
		t.Fatal(err)
	}
	year, month, day := at.Date()
	begins := time.Date(year, month, day, 0, 0, 0, 0, at.Location())
	if value>>31 != begins.Unix()/60%(1<<22) {
		return 0 // of another window
	}
	return value & (1<<31 - 1)
}
