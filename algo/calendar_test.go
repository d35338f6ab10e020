package algo

import (
	"errors"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// hours is a limit with calendar windows around the tests' epoch: of an hour each.
var hours = Limit{
	Algorithm: FixedWindow, Units: 10, WindowMicros: 3600e6, CalendarID: "day:Test/Hours",
	Bounds: Bounds{epoch - 3600e6, epoch, epoch + 3600e6, epoch + 7200e6},
}

// boundsAround are the windows of a calendar like those that people use: each is
// about the limit's window, and no three have the same length.
func boundsAround(l *Limit, micros int64) (b Bounds) {
	unit := max(ceilDiv(l.WindowMicros, minute), 4)
	begin := func(n int64) int64 { return (n*unit + n%3*unit/4) * minute }
	n := micros/(unit*minute) + 1
	for begin(n) > micros {
		n--
	}
	for i := range b {
		b[i] = begin(n - 1 + int64(i))
	}
	return b
}

// TestCalendarByDefinition: a window admits its limit, whatever the windows before it
// did, and says where it begins and ends.
func TestCalendarByDefinition(t *testing.T) {
	t.Parallel()
	r := newRandom(900)
	for range 200 {
		l := r.limit(FixedWindow)
		l.FromFirstRequest, l.CalendarID = false, "day:Test/Zone"
		p, states, out := mustPlan(t, l), make([]State, 1), make([]Decision, 1)
		now, sized := epoch+r.Int64N(1e15), new(Plan)
		var begins, used int64
		for range 150 {
			now += r.step(&l, out[0], now)
			b := boundsAround(&l, now)
			if b[1] != begins {
				begins, used = b[1], 0
			}
			cost := r.cost(l.Units)
			sized, _ = p.Sized(sized, []Size{{Units: l.Units, Bounds: b}})
			want := Decision{
				Allowed: used+cost <= l.Units, Remaining: l.Units - used, ResetAfterMicros: b[2] - now,
				BeginsMicros: b[1], EndsMicros: b[2],
			}
			if used == 0 {
				want.ResetAfterMicros = 0
			}
			want.ResetBeforeMicros = want.ResetAfterMicros
			switch {
			case want.Allowed && cost > 0:
				used, want.Remaining, want.ResetAfterMicros = used+cost, want.Remaining-cost, b[2]-now
			case !want.Allowed && cost > l.Units:
				want.RetryAfterMicros = Never
			case !want.Allowed:
				want.RetryAfterMicros = b[2] - now
			}
			if decide(sized, states, now, cost, out); out[0] != want {
				t.Fatalf("%+v, cost %d at %d: %+v, want %+v", l, cost, now, out[0], want)
			}
		}
	}
}

// TestOtherTimeWritesNothing, not even what a clock that was set back makes another
// limit write.
func TestOtherTimeWritesNothing(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	first := Limit{Algorithm: FixedWindow, Units: 10, WindowMicros: 60e6, FromFirstRequest: true}
	w := newTwins(t, onRedis(client), mustPlan(t, first, hours), "other")
	if _, allowed := w.decide(t, epoch, 1); !allowed {
		t.Fatal("it is not allowed")
	}
	before := w.snapshot(client)
	for _, now := range []int64{w.limits[1].Bounds[0] - 1, w.limits[1].Bounds[3]} {
		if r, _, _, err := w.ruleInLua(t, now, costing(1)); !errors.Is(err, ErrOtherTime) || r.AtMicros != now {
			t.Errorf("at %d: %+v, %v", now, r, err)
		}
		_, err := w.settleInLua(t, now, charge{epoch, 0, []int64{0, 1}})
		testenv.OK(t, err)
		if after := w.snapshot(client); after != before {
			t.Errorf("at %d the keys became\n%s, were\n%s", now, after, before)
		}
	}
}

// TestCalendarRefund: a charge is given back while its window lasts, and no later.
func TestCalendarRefund(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	b := hours.Bounds
	for _, tc := range []struct {
		name           string
		charged, later int64 // when what was charged is given back, and another charge made
		want           int64 // what remains after that
	}{
		{"at once", b[1], b[1], 7},
		{"at the window's last moment", b[1], b[2] - 1, 7},
		{"in the next window", b[2] - 1, b[2], 7},
		{"two windows later", b[1] - 1, b[2], 7},
		{"the window before", b[0], b[1] - 1, 7},
	} {
		w := newTwins(t, onRedis(client), mustPlan(t, hours), "refund "+tc.name)
		w.decide(t, tc.charged, 4)
		w.decide(t, tc.later, 3)
		w.refund(t, tc.charged, tc.later, 4)
		out, _ := w.decide(t, tc.later, 0)
		testenv.Same(t, tc.name+": what remains", out[0].Remaining, tc.want)
	}
}

// TestCalendarIDs: windows of different names are different states.
func TestCalendarIDs(t *testing.T) {
	t.Parallel()
	berlin, plain := hours, hours
	berlin.CalendarID = "month:Europe/Berlin:31"
	plain.CalendarID, plain.Bounds = "", Bounds{}
	if got := berlin.KeySuffix(); got != ":fixed_window:month:Europe/Berlin:31" {
		t.Errorf("the key ends in %q", got)
	}
	seen := map[ID]bool{}
	for _, l := range []Limit{berlin, hours, plain} {
		seen[l.ID()] = true
	}
	if len(seen) != 3 {
		t.Errorf("%d IDs of 3 limits", len(seen))
	}
	if id := berlin.ID(); id != berlin.ID() || id.Variant <= MaxSubWindows {
		t.Errorf("the ID is %+v", id)
	}
}

// TestRefusesBounds that are none.
func TestRefusesBounds(t *testing.T) {
	t.Parallel()
	good := hours
	for _, tc := range []struct {
		name   string
		change func(l *Limit)
	}{
		{"not in order", func(l *Limit) { l.Bounds[2] = l.Bounds[1] }},
		{"below 0", func(l *Limit) { l.Bounds[0] = -60e6 }},
		{"no whole minutes", func(l *Limit) { l.Bounds[3]++ }},
		{"too late", func(l *Limit) { l.Bounds[3] = maxReplyMicros/minute*minute + minute }},
		{"without a calendar", func(l *Limit) { l.CalendarID = "" }},
	} {
		l := good
		tc.change(&l)
		if _, err := NewPlan([]Limit{l}); err == nil || !strings.Contains(err.Error(), "bounds") {
			t.Errorf("%s: %v", tc.name, err)
		}
		plain := Limit{Algorithm: FixedWindow, Units: 10, WindowMicros: 3600e6, CalendarID: l.CalendarID}
		if _, ok := mustPlan(t, plain).Sized(new(Plan), []Size{{Units: 10, Bounds: l.Bounds}}); ok {
			t.Errorf("%s: a size", tc.name)
		}
	}
	for _, change := range []func(*Limit){
		func(l *Limit) { l.Algorithm = GCRA },
		func(l *Limit) { l.FromFirstRequest = true },
	} {
		l := good
		if change(&l); l.validate() == nil {
			t.Errorf("%+v is valid", l)
		}
	}
}

// TestCalendarReply names a window of those that the call brought.
func TestCalendarReply(t *testing.T) {
	t.Parallel()
	p, b := mustPlan(t, hours), hours.Bounds
	for _, tc := range []struct {
		name   string
		start  int64
		reset  int64
		err    error
		begins int64
		ends   int64
	}{
		{"the first", b[0], 1, nil, b[0], b[1]},
		{"the last", b[2], 1, nil, b[2], b[3]},
		{"the end of the last", b[3], 1, ErrReplyRange, 0, 0},
		{"none", b[1] + 1, 1, ErrReplyRange, 0, 0},
		{"0", 0, 1, ErrReplyRange, 0, 0},
		{"a reset after its end", b[1], 3600e6 + 1, ErrReplyRange, 0, 0},
	} {
		out := make([]Decision, 1)
		_, _, err := p.ParseReply([]int64{epoch, 9, tc.reset, 0, 0, tc.start}, out)
		testenv.SameError(t, tc.name, err, tc.err)
		if err == nil {
			testenv.Same(t, tc.name+": the begin of the window", out[0].BeginsMicros, tc.begins)
			testenv.Same(t, tc.name+": its end", out[0].EndsMicros, tc.ends)
		}
	}
}
