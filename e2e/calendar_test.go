package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/envoytest"
	"github.com/sluiceproxy/sluice/internal/redistest"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// noon is a zone in which it is about noon: no window begins while a test runs.
func noon(t *testing.T) (name string, in *time.Location) {
	t.Helper()
	west := (time.Now().UTC().Hour() + 12) % 24 // hours after noon
	if west > 12 {
		west -= 24
	}
	name = fmt.Sprintf("Etc/GMT%+d", west) // POSIX' sign: + is west of Greenwich
	in, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	if h := time.Now().In(in).Hour(); h < 11 || h > 13 {
		t.Fatalf("it is %d o'clock in %s", h, name)
	}
	return name, in
}

// quota is a calendar limit, and the window that a time is in.
type quota struct {
	fields string // after the algorithm, the limit and the zone
	suffix string // of the key, with %s for the zone
	begins func(y int, m time.Month, d int, weekday time.Weekday) time.Time
	length func(begins time.Time) time.Time
}

// quotas are one of each window, by the paths of their rules.
func quotas(in *time.Location) map[string]quota {
	date := func(y int, m time.Month, d int) time.Time { return time.Date(y, m, d, 0, 0, 0, 0, in) }
	add := func(y, m, d int) func(time.Time) time.Time {
		return func(t time.Time) time.Time { return t.AddDate(y, m, d) }
	}
	return map[string]quota{
		"day": {
			`"window": "day"`, ":day:%s",
			func(y int, m time.Month, d int, _ time.Weekday) time.Time { return date(y, m, d) }, add(0, 0, 1),
		},
		"week": {
			`"window": "week"`, ":week:%s:monday",
			func(y int, m time.Month, d int, w time.Weekday) time.Time { return date(y, m, d-int(w+6)%7) }, add(0, 0, 7),
		},
		"thursday": {
			`"window": "week", "starts": "thursday"`, ":week:%s:thursday",
			func(y int, m time.Month, d int, w time.Weekday) time.Time { return date(y, m, d-int(w+3)%7) }, add(0, 0, 7),
		},
		"month": {
			`"window": "month"`, ":month:%s:1",
			func(y int, m time.Month, _ int, _ time.Weekday) time.Time { return date(y, m, 1) }, add(0, 1, 0),
		},
		"year": {
			`"window": "year"`, ":year:%s:01-01",
			func(y int, _ time.Month, _ int, _ time.Weekday) time.Time { return date(y, 1, 1) }, add(1, 0, 0),
		},
	}
}

// calendarRules is a rule for each quota, of two requests.
func calendarRules(members, zone string, all map[string]quota) string {
	var rules []string
	for name, q := range all {
		rules = append(rules, fmt.Sprintf(`{"name": %q, "match": {"path": "/%s"}, "key": [{"query": "u", "default": "u"}],
			"limits": [{"algorithm": "fixed_window", "limit": 2, "timezone": %q, %s}]}`, name, name, zone, q.fields))
	}
	slices.Sort(rules)
	return `{` + members + bothHeaders + `"rules": [` + strings.Join(rules, ",\n") + `]}`
}

// expectWindows sends three requests to each quota, and wants the headers of its
// window. It returns when each key expires, by its name after the tag.
func expectWindows(t *testing.T, s *setting, zone string, in *time.Location, all map[string]quota) map[string]int64 {
	t.Helper()
	ends := map[string]int64{}
	for name, q := range all {
		now := time.Now().In(in)
		begin := q.begins(now.Year(), now.Month(), now.Day(), now.Weekday())
		end := q.length(begin)
		ends[":fixed_window"+fmt.Sprintf(q.suffix, zone)] = end.UnixMilli()
		policy := fmt.Sprintf(`%q;q=2;w=%d`, name, int64(end.Sub(begin)/time.Second))
		for i, want := range []int{http.StatusOK, http.StatusOK, http.StatusTooManyRequests} {
			r := get(t, s.URL+"/"+name)
			if got := r.header.Get("ratelimit-policy"); r.status != want || got != policy {
				t.Errorf("%s, request %d: status %d, policy %s; want %d, %s", name, i, r.status, got, want, policy)
			}
			wantSeconds(t, name+": reset", r.header.Get("x-ratelimit-reset"), time.Until(end))
			if want == http.StatusTooManyRequests {
				wantSeconds(t, name+": retry-after", r.header.Get("retry-after"), time.Until(end))
			}
		}
	}
	return ends
}

// wantSeconds wants a header to be a time in seconds, rounded up, as a moment ago.
func wantSeconds(t *testing.T, what, got string, want time.Duration) {
	t.Helper()
	seconds, err := strconv.ParseInt(got, 10, 64)
	testenv.SameError(t, what, err, nil)
	testenv.Within(t, what, seconds, int64(want/time.Second), int64(want/time.Second)+5)
}

// TestCalendarWindows: what each window says, where its key is, and when that expires.
func TestCalendarWindows(t *testing.T) {
	t.Parallel()
	zone, in := noon(t)
	all := quotas(in)
	s := start(t, calendarRules(patient, zone, all), envoytest.Options{})
	ends := expectWindows(t, s, zone, in, all)
	for suffix, want := range ends {
		name := ""
		for _, key := range s.keys(t) {
			if strings.HasSuffix(key, "|u}"+suffix) {
				name = key
			}
		}
		if got := expiresAt(t, s.client, name); got != want {
			t.Errorf("%q (%s) expires at %d, want %d; keys: %q", name, suffix, got, want, s.keys(t))
		}
	}
	if n := len(s.keys(t)); n != len(ends) {
		t.Errorf("%d keys, want %d", n, len(ends))
	}
}

// expiresAt is PEXPIRETIME, in ms.
func expiresAt(t *testing.T, client *redis.Client, key string) int64 {
	t.Helper()
	at, err := client.Do(ctx, "PEXPIRETIME", key).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// TestCalendarInTheEmbeddedStore: the same without Redis.
func TestCalendarInTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	zone, in := noon(t)
	s := start(t, calendarRules("", zone, quotas(in)), envoytest.Options{Redis: []string{}})
	expectWindows(t, s, zone, in, quotas(in))
}

// TestCalendarOnCluster: the windows are those of all nodes, and two Envoys share them.
func TestCalendarOnCluster(t *testing.T) {
	t.Parallel()
	zone, in := noon(t)
	cluster := redistest.StartCluster(t, 3)
	rules := calendarRules(patient, zone, quotas(in))
	s, other := onCluster(t, cluster, rules), onCluster(t, cluster, rules)
	expectWindows(t, s, zone, in, quotas(in))
	for user := range 20 {
		urls := []string{fmt.Sprintf("%s/month?u=%d", s.URL, user), fmt.Sprintf("%s/month?u=%d", other.URL, user)}
		expectTally(t, urls[0], burst(t, 6, 6, urls), tally{http.StatusOK: 2, http.StatusTooManyRequests: 4})
	}
}

// berlin is the day in which Berlin's clocks go forward, far ahead: it has 23 hours.
func berlin(t *testing.T) (begins, ends time.Time) {
	t.Helper()
	in, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	for day := 1; ; day++ {
		begins, ends = time.Date(2045, 3, day, 0, 0, 0, 0, in), time.Date(2045, 3, day+1, 0, 0, 0, 0, in)
		if ends.Sub(begins) == 23*time.Hour {
			return begins, ends
		}
	}
}

// TestCalendarByRedisClock: midnight comes when Redis says so. A worker whose clock is
// wrong by decades, and a clock that leaps, cost a question more, and change nothing.
func TestCalendarByRedisClock(t *testing.T) {
	t.Parallel()
	begins, ends := berlin(t)
	server := redistest.Start(t)
	clock := newRedisClock(t, server.Addr, begins.Add(-time.Second))
	s := start(t, `{`+patient+bothHeaders+`"deny_cache": {"size": 0}, "rules": [
		{"name": "daily", "limits": [{"algorithm": "fixed_window", "limit": 2, "window": "day",
			"timezone": "Europe/Berlin"}]},
		{"name": "few", "match": {"path": "/few"},
			"limits": [{"algorithm": "fixed_window", "limit": 1, "window": "366d", "anchor": "first_request"}]}]}`,
		envoytest.Options{Redis: []string{clock.wire.addr}, Workers: 1})
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
		if got := expiresAt(t, server.Client(), key); got != tc.expires.UnixMilli() {
			t.Errorf("at %s: the key expires at %s, want %s", tc.at, time.UnixMilli(got), tc.expires)
		}
	}
}
