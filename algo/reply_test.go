package algo

import (
	"errors"
	"math"
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// replyLimits have a reply with and without a delay.
var replyLimits = []Limit{
	{Algorithm: LeakyBucket, Units: 10, WindowMicros: 1e6, Burst: 20, Queue: true, MaxDelayMicros: 5e6},
	{Algorithm: FixedWindow, Units: 100, WindowMicros: 60e6},
}

// goodReply could come from the script of replyLimits.
var goodReply = []int64{1.7e15, 19, 1e5, 0, 5e4, 2e5, 99, 59e6, 0, 58e6}

// with returns the good reply with one number changed.
func with(i int, v int64) []int64 {
	changed := slices.Clone(goodReply)
	changed[i] = v
	return changed
}

func TestParseReply(t *testing.T) {
	t.Parallel()
	p := mustPlan(t, replyLimits...)
	testenv.Same(t, "the length of a reply", p.ReplyLen(), len(goodReply))
	for _, c := range []struct {
		name    string
		values  []int64
		allowed bool
		err     error
	}{
		{"allowed", goodReply, true, nil},
		{"first denied", with(3, 7), false, nil},
		{"second denied", with(8, 1), false, nil},
		{"never", with(8, Never), false, nil},
		{"nothing", nil, false, ErrReplyLength},
		{"the time alone", goodReply[:1], false, ErrOtherTime},
		{"a time alone that cannot be", []int64{-1}, false, ErrReplyRange},
		{"cut off", goodReply[:9], false, ErrReplyLength},
		{"too long", append(with(0, 0), 0), false, ErrReplyLength},
		{"time below 0", with(0, -1), false, ErrReplyRange},
		{"time too large", with(0, math.MaxInt64), false, ErrReplyRange},
		{"remaining below 0", with(1, -1), false, ErrReplyRange},
		{"remaining above the burst", with(1, 21), false, ErrReplyRange},
		{"remaining above the limit", with(6, 101), false, ErrReplyRange},
		{"reset below 0", with(2, -1), false, ErrReplyRange},
		{"reset too large", with(7, math.MaxInt64), false, ErrReplyRange},
		{"reset beyond three windows", with(7, 180e6+1), false, ErrReplyRange},
		{"reset before below 0", with(4, -1), false, ErrReplyRange},
		{"reset before too large", with(9, 180e6+1), false, ErrReplyRange},
		{"retry below never", with(3, -2), false, ErrReplyRange},
		{"retry too large", with(8, 180e6+1), false, ErrReplyRange},
		{"delay below 0", with(5, -1), false, ErrReplyRange},
		{"delay above the longest", with(5, 5e6+1), false, ErrReplyRange},
	} {
		out := make([]Decision, 2)
		at, allowed, err := p.ParseReply(c.values, out)
		if !errors.Is(err, c.err) || allowed != c.allowed {
			t.Errorf("%s: %v, %v; want %v, %v", c.name, allowed, err, c.allowed, c.err)
		}
		if err == nil && at != 1.7e15 {
			t.Errorf("%s: at %d", c.name, at)
		}
	}
}

func TestParseReplyIntoDecisions(t *testing.T) {
	t.Parallel()
	p, out := mustPlan(t, replyLimits...), make([]Decision, 2)
	p.ParseReply(with(8, 3), out)
	want := []Decision{
		{Allowed: true, Remaining: 19, ResetAfterMicros: 1e5, ResetBeforeMicros: 5e4, DelayMicros: 2e5},
		{Remaining: 99, ResetAfterMicros: 59e6, ResetBeforeMicros: 58e6, RetryAfterMicros: 3},
	}
	testenv.SameList(t, "the reply", out, want)
	if _, _, err := p.ParseReply(goodReply, out[:1]); !errors.Is(err, ErrReplyLength) {
		t.Errorf("into too few decisions: %v", err)
	}
}

// FuzzParseReply: whatever Redis answers, it is an error or decisions that make
// sense.
func FuzzParseReply(f *testing.F) {
	f.Add(10, int64(17e14), int64(19), int64(0), int64(0), int64(5))
	f.Add(10, int64(0), int64(0), int64(Never), int64(math.MaxInt64), int64(math.MinInt64))
	f.Add(0, int64(0), int64(0), int64(0), int64(0), int64(0))
	p := mustPlan(f, replyLimits...)
	f.Fuzz(func(t *testing.T, length int, a, b, c, d, e int64) {
		values := []int64{a, b, c, d, e, b, c, d, e, b, a, b}
		if length < 0 || length > len(values) {
			return
		}
		out := make([]Decision, 2)
		at, allowed, err := p.ParseReply(values[:length], out)
		if err != nil {
			return
		}
		if at < 0 || allowed != (out[0].Allowed && out[1].Allowed) {
			t.Errorf("%v: at %d, %v, %+v", values[:length], at, allowed, out)
		}
		for i, d := range out {
			checkSense(t, &p.Limits()[i], d)
		}
	})
}

// checkSense checks that a decision is within what its documentation promises.
func checkSense(t *testing.T, l *Limit, d Decision) {
	t.Helper()
	const longest = math.MaxInt64
	testenv.Within(t, "what remains", d.Remaining, 0, l.Capacity())
	testenv.Within(t, "the reset", d.ResetAfterMicros, 0, longest)
	testenv.Within(t, "the reset before", d.ResetBeforeMicros, 0, longest)
	testenv.Within(t, "the wait", d.RetryAfterMicros, Never, longest)
	testenv.Within(t, "the delay", d.DelayMicros, 0, l.MaxDelayMicros)
	testenv.Same(t, "that it is allowed", d.Allowed, d.RetryAfterMicros == 0)
	if t.Failed() {
		t.Fatalf("%+v: %+v", *l, d)
	}
}

// TestLeaseChanged: in a rollout an Envoy reads what another has written whose batches last longer,
// up to a window.
func TestLeaseChanged(t *testing.T) {
	t.Parallel()
	const window = int64(60e6)
	for _, a := range []Algorithm{GCRA, TokenBucket} {
		for name, micros := range map[string][2]int64{
			"shorter": {2 * window, 1}, "a little shorter": {60e6, 4e5}, "longer": {4e5, 60e6},
		} {
			of := func(leaseMicros int64) *Plan {
				return mustPlan(t, Limit{Algorithm: a, Units: 6000, WindowMicros: window, Burst: 100, LeaseMicros: leaseMicros})
			}
			old, young := of(micros[0]), of(micros[1])
			states, out, now := []State{nil}, make([]Decision, 1), int64(epoch)
			for range 12 {
				decide(old, states, now, 20, out)
				decide(young, states, now, 20, out)
				_, _, err := young.ParseReply(young.AppendReply(nil, now, out), out)
				testenv.Same(t, a.String()+", "+name+": the reply is taken", err, nil)
				now += micros[0] / 4
			}
		}
	}
}
