package algo

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/redis/go-redis/v9"
)

// slotsOfTwo is a limit on what is in flight.
var slotsOfTwo = Limit{Algorithm: Concurrency, Units: 2, TTLMicros: 30e6}

// everyList are all lists of up to most limits: each algorithm and variant at each place.
// Slots are in a list once.
func everyList(most int) (lists [][]Limit) {
	every := append(everyLimit(), hours(), slotsOfTwo)
	shorter := [][]Limit{nil}
	for range most {
		var longer [][]Limit
		for _, list := range shorter {
			for _, l := range every {
				if l.Algorithm == Concurrency && slices.Contains(list, l) {
					continue
				}
				longer = append(longer, append(slices.Clone(list), another(l, len(list))))
			}
		}
		lists, shorter = append(lists, longer...), longer
	}
	return lists
}

// another is a limit like l whose key is its own at its place in a list.
func another(l Limit, place int) Limit {
	switch {
	case l.Algorithm == Concurrency:
		return l
	case l.CalendarID != "":
		l.CalendarID += fmt.Sprint(place)
		return l
	}
	l.WindowMicros += int64(place) * 10e6 * max(l.SubWindows, 1)
	return l
}

// TestReplyForms holds that no reply of limits can be taken for a short one, for every
// list of up to three limits and all terms: it parses as what the limits decided,
// whatever remains and however long the wait is.
func TestReplyForms(t *testing.T) {
	t.Parallel()
	all := everyTerms()
	all["none"] = Terms{}
	for _, limits := range everyList(3) {
		for name, terms := range all {
			p := mustPlanWithTerms(t, terms, limits...)
			for remaining := range int64(7) {
				for _, retry := range []int64{0, 1, 2, 3, slotRetryMicros, Never} {
					checkForm(t, name, p, remaining, retry)
				}
			}
		}
	}
}

// checkForm parses a reply in which so much remains of the first limit, which makes the
// request wait so long.
func checkForm(t *testing.T, name string, p *Plan, remaining, retry int64) {
	t.Helper()
	first := &p.limits[0]
	remaining = min(remaining, first.Capacity())
	values := make([]int64, p.ReplyLen(), p.ReplyLen()+2)
	values[0], values[1] = epoch, remaining
	if first.Algorithm == Concurrency {
		values[2] = retry
	} else {
		values[3] = retry
	}
	at := 1
	for i := range p.limits {
		if p.limits[i].CalendarID != "" {
			values[at+4] = epoch
		}
		at += len(p.limiters[i].reply)
	}
	if p.terms.Penalty != nil {
		values = append(values, 0)
	}
	out := make([]Decision, len(p.limits))
	r, err := p.ParseRuling(values, out)
	want := Ruling{AtMicros: epoch, Allowed: retry == 0}
	switch {
	case err != nil:
		t.Fatalf("%s of %+v: %v: %v", name, p.limits, values, err)
	case r != want:
		t.Fatalf("%s of %+v: %v is %+v, want %+v", name, p.limits, values, r, want)
	case out[0].Remaining != remaining:
		t.Fatalf("%s of %+v: %v leaves %d, want %d", name, p.limits, values, out[0].Remaining, remaining)
	case out[0].RetryAfterMicros != retry:
		t.Fatalf("%s of %+v: %v waits %d, want %d", name, p.limits, values, out[0].RetryAfterMicros, retry)
	}
}

// TestShortForms holds that each short reply is read as what it says by those plans whose
// scripts can give it, and refused by all others.
func TestShortForms(t *testing.T) {
	t.Parallel()
	overrides, penalty := Terms{Overrides: true}, Terms{Penalty: threeStrikes}
	for _, tc := range []struct {
		name   string
		terms  Terms
		limits []Limit
		values []int64
		want   Ruling
		err    error
	}{
		{"free", overrides, []Limit{slotsOfTwo}, []int64{9, -1, 0}, Ruling{AtMicros: 9, Allowed: true, By: ByFree}, nil},
		{"block", overrides, []Limit{slotsOfTwo}, []int64{9, -2, 5}, Ruling{AtMicros: 9, By: ByBlock, LeftMicros: 5}, nil},
		{
			"endless", overrides,
			[]Limit{slotsOfTwo},
			[]int64{9, -2, -1},
			Ruling{AtMicros: 9, By: ByBlock, LeftMicros: -1},
			nil,
		},
		{"penalty", penalty, []Limit{slotsOfTwo}, []int64{9, -3, 5}, Ruling{AtMicros: 9, By: ByPenalty, LeftMicros: 5}, nil},
		{"unlimited", overrides, nil, []int64{9, -4, 1}, Ruling{AtMicros: 9, Allowed: true, Ignored: true}, nil},
		{"unlimited, a penalty", penalty, nil, []int64{9, -4, 0}, Ruling{AtMicros: 9, Allowed: true}, nil},
		{
			"another override", overrides,
			[]Limit{slotsOfTwo},
			[]int64{9, -6, 5},
			Ruling{AtMicros: 9, LeftMicros: 5},
			ErrOtherOverride,
		},
		{"of no limits", overrides, nil, []int64{9, -6, -1}, Ruling{AtMicros: 9, LeftMicros: -1}, ErrOtherOverride},
		{"penalty without one", overrides, []Limit{slotsOfTwo}, []int64{9, -3, 5}, Ruling{}, ErrReplyRange},
		{"endless penalty", penalty, []Limit{slotsOfTwo}, []int64{9, -3, -1}, Ruling{}, ErrReplyRange},
		{"block without overrides", penalty, []Limit{slotsOfTwo}, []int64{9, -2, 5}, Ruling{}, ErrReplyRange},
		{"free without overrides", penalty, []Limit{slotsOfTwo}, []int64{9, -1, 0}, Ruling{}, ErrReplyRange},
		{"unlimited, with limits", overrides, []Limit{slotsOfTwo}, []int64{9, -4, 0}, Ruling{}, ErrReplyRange},
		{"override without overrides", penalty, []Limit{slotsOfTwo}, []int64{9, -6, 5}, Ruling{}, ErrReplyRange},
		{"unknown marker", overrides, []Limit{slotsOfTwo}, []int64{9, -5, 0}, Ruling{}, ErrReplyRange},
		{"too short", overrides, []Limit{slotsOfTwo}, []int64{9, -1}, Ruling{}, ErrReplyLength},
		{"too long", overrides, []Limit{slotsOfTwo}, []int64{9, -1, 0, 0}, Ruling{}, ErrReplyLength},
		{"no terms", Terms{}, []Limit{slotsOfTwo}, []int64{9, -1, 0}, Ruling{}, ErrReplyRange},
		{"a time that cannot be", overrides, []Limit{slotsOfTwo}, []int64{-9, -1, 0}, Ruling{}, ErrReplyRange},
	} {
		p := mustPlanWithTerms(t, tc.terms, tc.limits...)
		r, err := p.ParseRuling(tc.values, make([]Decision, len(tc.limits)))
		if r != tc.want || !errors.Is(err, tc.err) {
			t.Errorf("%s: %+v, %v; want %+v, %v", tc.name, r, err, tc.want, tc.err)
		}
	}
}

// TestRepliesOfScripts runs the script of every list of up to two limits, with all terms,
// on a real Redis, and those of three limits that have slots. Admitted or rejected, each
// answers what the Go twin decides.
func TestRepliesOfScripts(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for n, limits := range everyList(3) {
		slots := slices.ContainsFunc(limits, func(l Limit) bool { return l.Algorithm == Concurrency })
		if len(limits) == 3 && !slots {
			continue
		}
		for name, terms := range everyTerms() {
			c := newTermed(t, client, mustPlanWithTerms(t, terms, limits...), fmt.Sprintf("%s-%d", name, n))
			c.agrees(t)
		}
	}
}

// agrees asks for 1, 1, 1 and 11 units, and compares with the Go twin.
func (c *termed) agrees(t *testing.T) {
	t.Helper()
	pipe := c.client.Pipeline()
	var calls []*redis.Cmd
	costs := []int64{1, 1, 1, 11}
	for i, cost := range costs {
		calls = append(calls, c.call(pipe, asked{now: epoch, cost: cost, nonce: int64(i + 1)}))
	}
	_, _ = pipe.Exec(ctx)
	states, want := make([]State, len(c.limits)), make([]Decision, len(c.limits))
	for i, call := range calls {
		allowed := c.DecideAs(int64(i+1), states, epoch, c.Each(costs[i]), want)
		r, out, err := c.rule(call)
		switch {
		case err != nil:
			t.Fatalf("%+v, %+v: call %d: %v", c.limits, c.terms, i, err)
		case r.By != ByLimits:
			t.Fatalf("%+v, %+v: call %d is decided by %v, want the limits", c.limits, c.terms, i, r.By)
		case r.Allowed != allowed:
			t.Fatalf("%+v, %+v: call %d: allowed is %v, want %v", c.limits, c.terms, i, r.Allowed, allowed)
		case !slices.Equal(out, want):
			t.Fatalf("%+v, %+v: call %d is %+v, want %+v", c.limits, c.terms, i, out, want)
		}
	}
}
