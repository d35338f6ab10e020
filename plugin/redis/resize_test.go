package redis

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// otherTime is the reply of a script that was called for another time.
func otherTime(at int64) string { return fmt.Sprintf("*1\r\n:%d\r\n", at) }

// resizable prepares a request that knows other sizes: of testScript's limit a burst
// of 40, which is an argument of the script.
func (r *rig) resizable(tags ...string) *client {
	w := r.request(tags...)
	w.sizes = []algo.Size{{Units: 10, Burst: 40}}
	return w
}

// wantResized checks that the second command is the first one with other sizes.
func (r *rig) wantResized(first, second []string) {
	r.t.Helper()
	different := 0
	for i := range first {
		if i > 1 && first[i] != second[i] {
			different++
		}
	}
	if len(first) != len(second) || different == 0 {
		r.t.Errorf("sent %q, then %q", first, second)
	}
}

// A check for another time is sent once more, with the sizes that its Waiter has for
// that time.
func TestAsksAgainForAnotherTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	w := r.resizable("a", "b").flush()
	first := r.answer(otherTime(77))
	r.allow(2) // b
	w.want("waits", "at 2")
	w.sizes[0].Burst = 1 // a Waiter may use them again
	r.wantResized(first, r.commands[0])
	r.now += 3 * ms
	r.allow(78)
	w.want("at 78", "at 2")
	if !slices.Equal(w.resizes, []int64{77}) {
		t.Errorf("asked for sizes at %d", w.resizes)
	}
	if want := []int64{0, 3 * ms}; !slices.Equal(r.roundTrips, want) {
		t.Errorf("round trips of %d us, want %d", r.roundTrips, want)
	}
	if len(r.lines) > 0 || len(r.failed) > 0 {
		t.Errorf("logged %q, failed %v", r.lines, r.failed)
	}
	r.wantInFlight(0)
	for range minRing { // the memory of entries is not the Waiter's
		r.conn.Begin(r.now)
		r.conn.Add(r.request("c"), 0,
			Check{Script: r.script, Cost: 1, Demand: rule.Demand{Tag: []byte("c"), Sizes: []algo.Size{{Units: 5, Burst: 5}}}})
	}
	if w.sizes[0].Burst != 1 {
		t.Errorf("the Waiter's sizes became %v", w.sizes)
	}
}

// decidedAt9 is the decision that a reply at 9 us brings a check of resizable.
const decidedAt9 = "at 9"

// mismatches are replies that ask for other sizes, and what follows.
var mismatches = []struct {
	name    string
	unsized bool
	do      func(r *rig)
	want    string
	sent    string // what waits for a reply then
	closed  bool
}{
	{name: "a second mismatch", do: func(r *rig) {
		r.answer(otherTime(1))
		r.answer(otherTime(2))
	}, want: "error_reply"},
	{name: "no other sizes", unsized: true, do: func(r *rig) {
		r.answer(otherTime(1))
	}, want: "malformed_reply", closed: true},
	{name: "no time", do: func(r *rig) { r.answer("*1\r\n:-1\r\n") }, want: "malformed_reply", closed: true},
	{name: "NOSCRIPT before", do: func(r *rig) {
		r.answer(noScript)
		r.answer(otherTime(1))
		r.allow(9)
	}, want: decidedAt9},
	{name: "NOSCRIPT between", do: func(r *rig) {
		first := r.answer(otherTime(1))
		second := r.answer(noScript)
		r.wantResized(first, second)
		r.wantResized(first, r.allow(9))
	}, want: decidedAt9},
	{name: "NOSCRIPT, and a second mismatch", do: func(r *rig) {
		r.answer(otherTime(1))
		r.answer(noScript)
		r.answer(otherTime(2))
	}, want: "error_reply"},
	{name: "without TIME", do: func(r *rig) {
		r.answer(otherTime(1))
		r.answer("-ERR This Redis command is not allowed from script script: x, on @user_script:2.\r\n")
		r.allow(9)
	}, want: decidedAt9},
	{name: "too late", do: func(r *rig) {
		r.pass(50 * ms)
		r.answer(otherTime(1))
	}, want: "expired, timeout"},
	{name: "the second answer is late", do: func(r *rig) {
		r.pass(30 * ms)
		r.answer(otherTime(1))
		r.pass(20 * ms)
		r.allow(9)
	}, want: "expired, at 9"},
	{name: "the stream is lost between", do: func(r *rig) {
		r.answer(otherTime(1))
		r.closeStream()
	}, want: "connection_lost", closed: true},
}

func TestAsksAgainOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range mismatches {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testOptions())
			w := r.resizable("a")
			if tc.unsized {
				w.sizes = nil
			}
			w.flush()
			tc.do(r)
			w.want(tc.want)
			r.wantInFlight(0)
			if r.open == tc.closed || len(r.commands) > 0 {
				t.Errorf("the stream is open: %v, waiting: %q", r.open, r.commands)
			}
		})
	}
}

// A refund in front that has to be sent again stays in front.
func TestRefundStaysInFrontOfResizedCheck(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.learnRefund()
	r.conn.Refund(Charge{Script: r.script, Demand: of("a"), Cost: 1, Nonce: 5, AtMicros: 9}, r.now)
	w := r.resizable("a").flush()
	r.answer(noScript)
	r.answer(otherTime(3))
	r.wantRefund("a", 9)
	r.answer(decision(4, false))
	w.want("at 4")
	r.wantInFlight(0)
}

// Every reply of a script tells Redis' time.
func TestRedisTime(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	if _, known := r.conn.RedisMicros(r.now); known {
		t.Error("known before any reply")
	}
	for _, tc := range []struct {
		name  string
		reply string
		want  int64 // 5 us later
	}{
		{"a decision", decision(1_000_000, true), 1_000_005},
		{"an error says nothing", "-OOM x\r\n", 1_000_005},
		{"another time", otherTime(2_000_000), 2_000_005},
		{"set back", decision(7_000, false), 7_005},
	} {
		r.resizable("a").flush()
		r.answer(tc.reply)
		if got, known := r.conn.RedisMicros(r.now + 5); got != tc.want || !known {
			t.Errorf("%s: %d, %v; want %d", tc.name, got, known, tc.want)
		}
		for len(r.commands) > 0 {
			r.answer("-OOM x\r\n")
		}
	}
}
