package decide

import (
	"fmt"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// A quota of a calendar month next to another rule, which rejects the third request.
const monthly = `{"redis": {"cluster": "redis"}, "failure": {"mode": "local"}, "rules": [
	{"name": "month", "limits": [
		{"algorithm": "fixed_window", "limit": 5, "window": "month", "timezone": "Europe/Berlin", "starts": 31},
		{"algorithm": "gcra", "limit": 100, "window": "1s"}]},
	{"name": "few", "limits": [{"algorithm": "fixed_window", "limit": 2, "window": "366d", "anchor": "first_request"}]}]}`

// noon is on the tenth of February.
var noon = time.Date(2026, time.February, 10, 12, 0, 0, 0, time.UTC).UnixMicro()

// answered is a request that Redis decides at once.
func (w *world) answered() *Question {
	w.t.Helper()
	q := w.arrive(nil)
	w.answer()
	if !q.concluded {
		w.t.Fatal("it was not concluded")
	}
	return q
}

// window is what the first limit of a request says of its calendar window.
func window(q *Question) string {
	d := &q.Checks[0].Decisions[0]
	begins, ends := time.UnixMicro(d.BeginsMicros).UTC(), time.UnixMicro(d.EndsMicros).UTC()
	return fmt.Sprintf("%d of %s to %s", d.Remaining, begins.Format(time.RFC3339), ends.Format(time.RFC3339))
}

// A worker whose clock is wrong by years learns Redis' time from its first answer, and
// charges the right window; what it gives back is of that window, too.
func TestCalendarByRedisTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, monthly)
	w.now.UnixMicros = time.Date(1999, time.June, 1, 12, 0, 0, 0, time.UTC).UnixMicro()
	w.aheadMicros = noon - w.now.UnixMicros
	if !w.worker.GuessesTime() {
		t.Error("the wall clock is not read for the first guess")
	}
	first := w.asks(nil)
	w.run(2)
	w.hear()
	testenv.Same(t, "commands that are sent again", len(w.flying), 1)
	w.answer()
	testenv.Same(t, "the first request", window(first), "4 of 2026-01-30T23:00:00Z to 2026-02-27T23:00:00Z")
	testenv.Same(t, "that the time is guessed", w.worker.GuessesTime(), false)
	testenv.Same(t, "the second", window(w.answered()), "3 of 2026-01-30T23:00:00Z to 2026-02-27T23:00:00Z")
	rejected := w.answered()
	testenv.Same(t, "what becomes of the third", rejected.verdict.Event, Refused)
	testenv.Same(t, "one that the other rule rejects", window(rejected),
		"3 of 2026-01-30T23:00:00Z to 2026-02-27T23:00:00Z")
	w.pass(time.Date(2026, time.February, 28, 0, 0, 0, 0, time.UTC).UnixMicro() - w.now.UnixMicros - w.aheadMicros)
	next := w.asks(nil)
	w.run(2)
	w.hear()
	testenv.Same(t, "commands that follow its checks", len(w.flying), 1) // what is given back
	testenv.Same(t, "one in the next window", window(next), "5 of 2026-02-27T23:00:00Z to 2026-03-30T22:00:00Z")
}

// Without Redis the embedded store counts in the same windows, by its own clock, and
// takes back what was charged there.
func TestCalendarInTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, monthly)
	w.now.UnixMicros = noon
	w.away = true
	for i, remaining := range []int64{4, 3, 3, 3} { // the other rule rejects from the third on
		q := w.answered()
		testenv.Same(t, "request", window(q), fmt.Sprint(remaining, " of 2026-01-30T23:00:00Z to 2026-02-27T23:00:00Z"))
		if refused := q.verdict.Event == Refused; refused != (i >= 2) {
			t.Errorf("request %d is refused: %v", i, refused)
		}
	}
}

// TestRejectedLevelsInTheEmbeddedStore: what stands behind a part that rejects is only looked at.
func TestRejectedLevelsInTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, `{"redis": {"cluster": "redis"}, "failure": {"mode": "local"}, "rules": [{"name": "r", "limits": [
		{"algorithm": "fixed_window", "limit": 1, "window": "366d"},
		{"name": "user", "algorithm": "fixed_window", "limit": 9, "window": "366d", "per": [{"header": "x-user"}]}]}]}`)
	w.away = true
	for i, user := range []string{"a", "b", "b"} {
		q := w.arrive(headers{"x-user": user})
		testenv.Same(t, "whether it is refused", q.verdict.Event == Refused, i > 0)
		testenv.Same(t, "what the user has left", q.Checks[0].Decisions[1].Remaining, []int64{8, 9, 9}[i])
	}
}

// A rejection is not remembered beyond its window.
func TestCalendarInTheDenyCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, `{"redis": {"cluster": "redis"}, "rules": [{"name": "day", "limits": [
		{"algorithm": "fixed_window", "limit": 1, "window": "day", "timezone": "America/Havana"}]}]}`)
	// 2 s before midnight, after a day of 25 hours
	w.now.UnixMicros = time.Date(2024, time.November, 4, 4, 59, 58, 0, time.UTC).UnixMicro()
	w.answered()
	for _, tc := range []struct {
		after  int64 // us
		source Source
		status Status
	}{
		{0, FromRedis, Rejected},
		{1, FromMemory, Rejected},
		{2e6 - 2, FromMemory, Rejected},
		{1, FromRedis, Allowed},
	} {
		w.pass(tc.after)
		c := &w.answered().Checks[0]
		if c.Source != tc.source || c.Status != tc.status {
			t.Errorf("at %s: source %d, status %d; want %d, %d", time.UnixMicro(w.now.UnixMicros).UTC(), c.Source, c.Status,
				tc.source, tc.status)
		}
		if d := &c.Decisions[0]; c.Status == Rejected && d.EndsMicros-d.BeginsMicros != 25*3600e6 {
			t.Errorf("a window of %d us", d.EndsMicros-d.BeginsMicros)
		}
	}
}

// Leased units are of the window in which they were charged, and go back to it.
func TestCalendarLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, `{"redis": {"cluster": "redis"}, "rules": [{"name": "day", "limits": [
		{"algorithm": "fixed_window", "limit": 100, "window": "day", "lease": {"units": 10, "ttl": "1s"}}]}]}`)
	w.now.UnixMicros = noon
	for range 20 {
		w.answered()
		w.pass(1000)
	}
	q := w.answered()
	if q.Checks[0].Source != FromLease {
		t.Fatalf("source %d, want the lease", q.Checks[0].Source)
	}
	if d := &q.Checks[0].Decisions[0]; d.EndsMicros-d.BeginsMicros != 86400e6 {
		t.Errorf("a window of %d us", d.EndsMicros-d.BeginsMicros)
	}
	w.worker.Close(w.now)
	w.answer()
	testenv.Same(t, "units that the window has counted", w.charged["day|"], 21)
}

// What a limit of 0 rejects without asking anybody has a window, too.
func TestCalendarOfNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, `{"redis": {"cluster": "redis"}, "rules": [{"name": "day", "limits": [
		{"algorithm": "fixed_window", "limit": 0, "window": "day"}]}]}`)
	w.now.UnixMicros = noon
	q := w.answered()
	testenv.Same(t, "the request", window(q), "0 of 2026-02-10T00:00:00Z to 2026-02-11T00:00:00Z")
}

// Each store counts by its own clock, even if these are months apart: what Redis
// charged late for a request that the embedded store has refused goes back to the
// window that it was charged in.
func TestCalendarOfTwoClocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, monthly)
	w.now.UnixMicros = noon
	w.answered() // by which the worker learns Redis' time
	w.aheadMicros = w.now.UnixMicros - time.Date(2026, time.May, 10, 12, 0, 0, 0, time.UTC).UnixMicro()
	w.now.UnixMicros -= w.aheadMicros
	w.away = true
	w.lose()
	w.answered()
	w.answered()
	w.away = false
	w.pass(20e6)
	w.worker.Tick(w.now) // the breaker's probe
	w.answer()
	q := w.asks(nil)
	q.Expired(0, w.now.SteadyMicros)
	q.Expired(1, w.now.SteadyMicros)
	if w.worker.goOn(w.now); q.verdict.Event != Refused {
		t.Fatal("the embedded store admits a third request")
	}
	testenv.Same(t, "what the embedded store says", window(q), "3 of 2026-04-29T22:00:00Z to 2026-05-30T22:00:00Z")
	w.calls = nil
	w.answer()
	testenv.Same(t, "that it is charged late", w.calls[0].Allowed, true)
	testenv.Same(t, "units that stay charged", w.charged["month|"], 1)
}
