package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestCalendarByRedisClock: midnight comes when Redis says so. A worker whose clock is
// wrong by decades, and a clock that leaps, cost a question more, and change nothing. So it is in the recipe.
func TestCalendarByRedisClock(t *testing.T) {
	t.Parallel()
	berlin, err := time.LoadLocation("Europe/Berlin")
	testenv.OK(t, err)
	var begins, ends time.Time // of the day in which Berlin's clocks go forward, far ahead: it has 23 hours
	for day := 1; ends.Sub(begins) != 23*time.Hour; day++ {
		begins, ends = time.Date(2045, 3, day, 0, 0, 0, 0, berlin), time.Date(2045, 3, day+1, 0, 0, 0, 0, berlin)
	}
	server := redistest.Start(t)
	clock := newRedisClock(t, server.Addr, begins.Add(-time.Second))
	months := example(t, "docs/cookbook.md", "Quotas by the month", "json")
	s := start(t, `{`+patient+bothHeaders+`"deny_cache": {"size": 0}, "rules": [
		{"name": "daily", "limits": [{"algorithm": "fixed_window", "limit": 2, "window": "day",
			"timezone": "Europe/Berlin"}]},
		{"name": "few", "match": {"path": "/few"},
			"limits": [{"algorithm": "fixed_window", "limit": 1, "window": "366d", "anchor": "first_request"}]}]}`,
		envoytest.Options{Redis: []string{clock.wire.addr}, Workers: 1, Beside: map[string]string{
			"recipe": strings.Replace(months, `"redis": {"cluster": "redis"},`, patient, 1),
		}})
	key := "rl:{daily|}:fixed_window:day:Europe/Berlin"
	for _, tc := range []struct {
		at           time.Time
		path         string
		status       int
		w, remaining string
		expires      time.Time
		asked        int64 // scripts: checks, and refunds
	}{
		{begins.Add(-time.Second), "/", 200, "86400", "1", begins, 2},
		{begins.Add(-time.Second), "/", 200, "86400", "0", begins, 1},
		{begins.Add(-time.Microsecond), "/", 429, "86400", "0", begins, 1},
		{begins, "/few", 200, "82800", "1", ends, 2},
		{begins.Add(time.Hour), "/few", 429, "82800", "1", ends, 3}, // what it charged is given back
		{ends.Add(-time.Microsecond), "/", 200, "82800", "0", ends, 1},
		{ends, "/", 200, "86400", "1", ends.AddDate(0, 0, 1), 1},
		{ends.AddDate(0, 5, 0), "/", 200, "86400", "1", ends.AddDate(0, 5, 1), 2},
		{ends.AddDate(0, 1, 0), "/", 200, "86400", "1", ends.AddDate(0, 1, 1), 2},
	} {
		clock.set(tc.at)
		before := clock.scripts.Load()
		r := get(t, s.URL+tc.path)
		policy := r.header.Get("ratelimit-policy")
		testenv.Wait(t, patience, func() error { // no request has waited for a refund
			return atLeast(int(clock.scripts.Load()-before), int(tc.asked), "scripts")
		})
		if asked := clock.scripts.Load() - before; asked != tc.asked {
			t.Errorf("at %s: %d scripts, want %d", tc.at, asked, tc.asked)
		}
		if r.status != tc.status || !strings.HasPrefix(policy, `"daily";q=2;w=`+tc.w) {
			t.Errorf("at %s: status %d, policy %s; want %d, %s", tc.at, r.status, policy, tc.status, tc.w)
		}
		if got := r.header.Get("ratelimit"); !strings.HasPrefix(got, `"daily";r=`+tc.remaining+";") {
			t.Errorf("at %s: %s, want %s remaining", tc.at, got, tc.remaining)
		}
		expires, err := server.Client().Do(ctx, "PEXPIRETIME", key).Int64()
		testenv.OK(t, err)
		if expires != tc.expires.UnixMilli() {
			t.Errorf("at %s: the key expires at %s, want %s", tc.at, time.UnixMilli(expires), tc.expires)
		}
	}
	// The recipe, on a day of the month on which no window begins.
	clock.set(time.Date(begins.Year(), 2, 28, 12, 0, 0, 0, berlin)) // its last day: the month begins
	r := get(t, s.Beside["recipe"], "x-api-key: a")
	for name, want := range map[string]string{
		"ratelimit-policy": `"monthly";q=100000;w=2674800, "daily";q=10000;w=86400`, // 31 days, one of them of 23 hours
		"ratelimit":        `"monthly";r=99999;t=2631600, "daily";r=9999;t=43200`,
	} {
		if got := r.header.Get(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}
