package decide

import (
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// A quota of a calendar month next to another rule, which rejects the third request.
const monthly = `{"redis": {"cluster": "redis"}, "failure": {"mode": "local"}, "rules": [
	{"name": "month", "limits": [
		{"algorithm": "fixed_window", "limit": 5, "window": "month", "timezone": "Europe/Berlin", "starts": 31},
		{"algorithm": "gcra", "limit": 100, "window": "1s"}]},
	{"name": "few", "limits": [{"algorithm": "fixed_window", "limit": 2, "window": "366d", "anchor": "first_request"}]}]}`

func micros(t *testing.T, text string) int64 {
	t.Helper()
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return at.UnixMicro()
}

// answered asks about a request, which Redis decides at once.
func (w *world) answered(fallback bool) *Question {
	w.t.Helper()
	q := w.arriving()
	w.send(q)
	for _, c := range w.flying {
		if fallback {
			q.Failed(c.index, 1, w.now.SteadyMicros)
			continue
		}
		w.run(c)
		c.waiter.Decided(c.index, c.reply, w.now.SteadyMicros)
		w.heard = w.now.UnixMicros
	}
	w.flying = nil
	w.verdict = w.conclude(q)
	return q
}

// wantWindow checks what a calendar limit says.
func wantWindow(t *testing.T, what string, d *algo.Decision, remaining int64, begins, ends string) {
	t.Helper()
	if d.Remaining != remaining {
		t.Errorf("%s: %d remain, want %d", what, d.Remaining, remaining)
	}
	if d.BeginsMicros != micros(t, begins) || d.EndsMicros != micros(t, ends) {
		t.Errorf("%s: a window from %s to %s", what, time.UnixMicro(d.BeginsMicros).UTC(), time.UnixMicro(d.EndsMicros).UTC())
	}
}

// A worker whose clock is wrong by years learns Redis' time from its first answer, and
// charges the right window; what it gives back is of that window, too.
func TestCalendarByRedisTime(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, monthly)
	w.steady = true
	w.now.UnixMicros = micros(t, "2026-02-10T12:00:00Z")
	redisNow := w.now
	wrong := w.now
	wrong.UnixMicros = micros(t, "1999-06-01T12:00:00Z")
	if !w.stores.GuessesTime() {
		t.Error("the wall clock is not read for the first guess")
	}
	first := w.askAt(wrong)
	w.now = redisNow
	w.decided(0)
	w.decided(1)
	w.flying, w.heard = nil, redisNow.UnixMicros
	wantWindow(t, "the first request", &first.Checks[0].Decisions[0], 4, "2026-01-30T23:00:00Z", "2026-02-27T23:00:00Z")
	if w.resized != 1 || w.stores.GuessesTime() {
		t.Errorf("%d calls were for another time, want 1; the time is guessed: %v", w.resized, w.stores.GuessesTime())
	}
	wantWindow(t, "the second", &w.answered(false).Checks[0].Decisions[0], 3, "2026-01-30T23:00:00Z",
		"2026-02-27T23:00:00Z")
	rejected := w.answered(false)
	if w.verdict.Event != Refused {
		t.Fatal("the other rule does not reject")
	}
	wantWindow(t, "one that the other rule rejects", &rejected.Checks[0].Decisions[0], 3, "2026-01-30T23:00:00Z",
		"2026-02-27T23:00:00Z")
	w.now.UnixMicros = micros(t, "2026-02-28T00:00:00Z")
	w.now.SteadyMicros += 20e6 // the rejection is forgotten
	next := w.answered(false)
	wantWindow(t, "one in the next window", &next.Checks[0].Decisions[0], 5, "2026-02-27T23:00:00Z",
		"2026-03-30T22:00:00Z")
	if w.resized != 1 {
		t.Errorf("%d calls were for another time, want 1", w.resized)
	}
}

// askAt is ask on a clock that Redis does not go by.
func (w *world) askAt(now Time) *Question {
	was := w.now
	w.now = now
	defer func() { w.now = was }()
	return w.ask()
}

// Without Redis the embedded store counts in the same windows, by its own clock, and
// takes back what was charged there.
func TestCalendarInTheEmbeddedStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, monthly)
	w.steady = true
	w.now.UnixMicros = micros(t, "2026-02-10T12:00:00Z")
	for i, remaining := range []int64{4, 3, 3, 3} { // the other rule rejects from the third on
		q := w.answered(true)
		wantWindow(t, "request", &q.Checks[0].Decisions[0], remaining, "2026-01-30T23:00:00Z", "2026-02-27T23:00:00Z")
		if refused := w.verdict.Event == Refused; refused != (i >= 2) {
			t.Errorf("request %d is refused: %v", i, refused)
		}
	}
}

// A rejection is not remembered beyond its window.
func TestCalendarInTheDenyCache(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, `{"redis": {"cluster": "redis"}, "rules": [{"name": "day", "limits": [
		{"algorithm": "fixed_window", "limit": 1, "window": "day", "timezone": "America/Havana"}]}]}`)
	w.steady = true
	w.now.UnixMicros = micros(t, "2024-11-04T04:59:58Z") // 2 s before midnight, after a day of 25 hours
	w.answered(false)
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
		w.now.SteadyMicros += tc.after
		w.now.UnixMicros += tc.after
		c := &w.answered(false).Checks[0]
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
	w.steady = true
	w.now.UnixMicros = micros(t, "2026-02-10T12:00:00Z")
	for range 20 {
		w.answered(false)
		w.now.SteadyMicros += 1000
		w.now.UnixMicros += 1000
	}
	q := w.answered(false)
	if q.Checks[0].Source != FromLease {
		t.Fatalf("source %d, want the lease", q.Checks[0].Source)
	}
	if d := &q.Checks[0].Decisions[0]; d.EndsMicros-d.BeginsMicros != 86400e6 {
		t.Errorf("a window of %d us", d.EndsMicros-d.BeginsMicros)
	}
	w.worker.Close(w.now)
	left := w.state(w.ledger[1].charge)[0]
	if want := int64(21); len(left) < 2 || left[1] != want {
		t.Errorf("the window has counted %v, want %d units", left, want)
	}
}

// What a limit of 0 rejects without asking anybody has a window, too.
func TestCalendarOfNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, `{"redis": {"cluster": "redis"}, "rules": [{"name": "day", "limits": [
		{"algorithm": "fixed_window", "limit": 0, "window": "day"}]}]}`)
	w.now.UnixMicros = micros(t, "2026-02-10T12:00:00Z")
	q := w.answered(false)
	wantWindow(t, "the request", &q.Checks[0].Decisions[0], 0, "2026-02-10T00:00:00Z", "2026-02-11T00:00:00Z")
}

// Each store counts by its own clock, even if these are months apart: what Redis
// charged late for a request that the embedded store has refused goes back to the
// window that it was charged in.
func TestCalendarOfTwoClocks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, monthly)
	w.steady = true
	may, february := w.now, w.now
	may.UnixMicros, february.UnixMicros = micros(t, "2026-05-10T12:00:00Z"), micros(t, "2026-02-10T12:00:00Z")
	w.now, w.heard = may, february.UnixMicros
	for range 2 {
		w.answered(true)
	}
	q := w.ask()
	q.Expired(0, w.now.SteadyMicros)
	q.Expired(1, w.now.SteadyMicros)
	if v := w.conclude(q); v.Event != Refused {
		t.Fatal("the embedded store admits a third request")
	}
	wantWindow(t, "what the embedded store says", &q.Checks[0].Decisions[0], 3, "2026-04-29T22:00:00Z",
		"2026-05-30T22:00:00Z")
	w.now = february
	w.decided(0)
	late := w.flying[0]
	testenv.Same(t, "what was charged late", late.charged, 1)
	testenv.Same(t, "what was given back of it", late.given, 1)
	testenv.Same(t, "calls for another time", w.resized, 0)
	if left := w.state(late.charge)[0]; len(left) > 0 {
		t.Errorf("the window has counted %v", left)
	}
}
