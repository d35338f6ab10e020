package redis

import (
	"fmt"
	"strings"
	"testing"
)

// The breaker opens with the failure that makes the number complete, not before;
// only failures in a row count.
func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	for _, limit := range []int64{1, 2, 5, 50} {
		options := testOptions()
		options.Breaker.Failures = limit
		r := newRig(t, options)
		for range 3 {
			r.trip(limit - 1)
			r.wantState(Closed)
			r.request("a").flush()
			r.allow(1)
		}
		r.now += 1000 * ms // what was decided is no longer recent
		r.trip(limit)
		r.wantState(Open)
		before := len(r.commands)
		for range 10 {
			r.request("b").flush().wantRefused(BreakerOpen)
		}
		if len(r.commands) != before || r.failed[BreakerOpen] != 10 {
			t.Errorf("sent %v, failed %v", r.commands, r.failed)
		}
		if fmt.Sprint(r.states) != fmt.Sprint([]BreakerState{Open}) || len(r.lines) != 1 {
			t.Errorf("states %v, logged %q; want one change", r.states, r.lines)
		}
	}
}

// What is decided in time ends a row of failures; a late reply does not.
func TestWhatEndsARowOfFailures(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		do   func(r *rig)
		ends bool
	}{
		{"allowed", func(r *rig) { r.request("a").flush(); r.allow(1) }, true},
		{"rejected", func(r *rig) { r.request("a").flush(); r.answer(decision(1, false)) }, true},
		{"first of two", func(r *rig) { r.request("a", "b").flush(); r.allow(1) }, true},
		{"late", func(r *rig) { r.request("a").flush(); r.pass(50 * ms); r.allow(1) }, false},
		{"beside one that failed", func(r *rig) {
			r.request("a", "b").flush()
			r.answer("-CLUSTERDOWN x\r\n")
			r.allow(1)
		}, true},
		{"between timeout and tick", func(r *rig) { r.request("a").flush(); r.stall(51 * ms); r.allow(1) }, true},
		{"a refund's reply", func(r *rig) {
			r.conn.Refund(Charge{Script: r.script, Demand: of("a"), Cost: 1, AtMicros: 1}, r.now)
			r.answer(":1\r\n")
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testOptions())
			r.request("a").flush()
			r.allow(1)
			r.trip(3)
			tc.do(r)
			if got := r.conn.link.health.breaker.row == 0; got != tc.ends {
				t.Errorf("ends the row: %v, want %v", got, tc.ends)
			}
		})
	}
}

// Each request that times out is a failure of its own: it has waited in full.
func TestBreakerOpensOnTimeouts(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	var clients []*client
	for range 5 {
		clients = append(clients, r.request("a").flush())
	}
	r.pass(10 * ms)
	young := r.request("b").flush()
	r.pass(40 * ms)
	r.wantState(Open)
	for _, w := range clients {
		w.wantAll("expired")
	}
	// Requests in flight may still be answered, and wait no longer than ever.
	young.wantAll("waits")
	r.receive(strings.Repeat(decision(1, true), 6))
	young.want("at 1")
	r.wantState(Open)
	if !r.open {
		t.Error("the stream answers and was closed")
	}
	r.passPause()
	r.answer("-LOADING x\r\n")
	if pause := r.conn.link.health.breaker.dueMicros - r.now; pause < 160*ms {
		t.Errorf("the second pause is %d us: an answer to an earlier request made it short", pause)
	}
}

// A READONLY reply makes all that wait on that connection fail, and is one
// failure; the next request connects anew.
func TestReadOnlyIsOneFailure(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	var clients []*client
	for range 20 {
		clients = append(clients, r.request("a").flush())
	}
	r.answer("-READONLY You can't write against a read only replica.\r\n")
	for _, w := range clients {
		w.wantAll(ErrorReply.String())
	}
	if got := r.conn.link.health.breaker.row; got != 1 {
		t.Errorf("%d failures, want 1", got)
	}
	w := r.request("b").flush()
	r.prove()
	r.allow(1)
	w.want("at 1")
	if r.streams != 2 {
		t.Errorf("%d streams, want another one", r.streams)
	}
}

// One of several servers behind redis_proxy is a replica: the connection, with what
// is in flight to the others, is replaced once a second and no more.
func TestOneServerIsReadOnly(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	lost := 0
	for range 1000 {
		w := r.request("replica", "primary").flush()
		if r.conn.link.stream.unproven {
			r.prove()
		}
		r.answer("-READONLY You can't write against a read only replica.\r\n")
		if r.open {
			r.allow(1)
		}
		if w.checks[1].at == 0 {
			lost++
		}
		r.now += 10 * ms
	}
	if lost > 10 {
		t.Errorf("%d of 1000 checks of the other server were lost in 10 s", lost)
	}
	r.wantState(Closed)
}

// The reason of an outage is logged when it begins and when it changes.
func TestReasonChanges(t *testing.T) {
	t.Parallel()
	r := loggedInRig(t)
	for range 5 {
		r.request("a").flush()
	}
	r.pass(50 * ms)
	for range 3 { // gone altogether
		r.passPause()
		r.closeStream()
	}
	for _, reply := range []string{"-LOADING x\r\n", "-LOADING y\r\n", "-READONLY x\r\n"} {
		r.passPause()
		if r.names() == "AUTH EVAL" { // the stream is a new one
			r.answer("+OK\r\n")
		}
		r.answer(reply)
	}
	for range 3 { // back, with another password
		r.passPause()
		r.answer("-WRONGPASS invalid username-password pair or user is disabled.\r\n")
	}
	r.passPause()
	r.answer("+OK\r\n")
	r.answer("+OK\r\n")
	want := []string{
		"redis does not decide: timeout: ",
		"redis does not decide: unreachable: ",
		"redis does not decide: error_reply: LOADING x ",
		"redis does not decide: error_reply: READONLY x ",
		"redis does not decide: error_reply: AUTH refused: WRONGPASS ",
		"redis is back: ",
	}
	if len(r.lines) != len(want) {
		t.Fatalf("logged %q, want %d lines", r.lines, len(want))
	}
	for i := range want {
		if !strings.HasPrefix(r.lines[i], want[i]) {
			t.Errorf("line %d is %q, want %q", i, r.lines[i], want[i])
		}
	}
}

// Where probes succeed and requests do not, the breaker slows down all the same.
func TestFlapping(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	began, cycles := r.now, 0
	for r.now < began+60_000*ms {
		r.trip(5)
		r.passPause()
		r.answer("+OK\r\n")
		r.wantState(Closed)
		cycles++
	}
	if cycles > 15 {
		t.Errorf("opened %d times in a minute", cycles)
	}
}

// A request that may not wait is not a failure of Redis.
func TestOverloadIsNoFailure(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.MaxPending = 1
	r := newRig(t, options)
	r.request("a").flush()
	for range 100 {
		r.request("b").flush()
	}
	r.wantState(Closed)
	r.allow(1)
}
