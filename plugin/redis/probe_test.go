package redis

import (
	"testing"
)

// Probes come after pauses that double, each within its bounds; one at a time.
func TestProbes(t *testing.T) {
	t.Parallel()
	options := testOptions()
	r := newRig(t, options)
	r.trip(5)
	base := options.Breaker.MinOpenMicros
	jittered := false
	for i := range 20 {
		pause := r.conn.link.health.breaker.dueMicros - r.now
		low := max(base-base/5, options.Breaker.MinOpenMicros)
		high := min(base+base/4, options.Breaker.MaxOpenMicros)
		if pause < low || pause > high {
			t.Errorf("pause %d is %d us, want %d to %d", i, pause, low, high)
		}
		jittered = jittered || pause != base
		r.pass(pause - 1)
		r.wantState(Open)
		if len(r.commands) != 0 {
			t.Fatalf("sent %v before the pause was over", r.commands)
		}
		r.pass(1)
		r.wantState(HalfOpen)
		r.pass(10 * ms)
		r.pass(10 * ms)
		if w := r.request("a").flush(); w.refused != BreakerOpen || r.names() != "EVAL" {
			t.Fatalf("refused %v, sent %s; want one probe", w.refused, r.names())
		}
		r.answer("-LOADING Redis is loading the dataset in memory\r\n")
		r.wantState(Open)
		base = min(2*base, options.Breaker.MaxOpenMicros)
	}
	if !jittered {
		t.Error("no pause had any jitter")
	}
	r.passPause()
	r.answer("+OK\r\n")
	r.wantState(Closed)
	w := r.request("b").flush()
	r.allow(1)
	w.want("at 1")
	if len(r.lines) != 2 || r.lines[1] != "redis is back: it decides again" {
		t.Errorf("logged %q, want one line a change", r.lines)
	}
	r.trip(5)
	if pause := r.conn.link.health.breaker.dueMicros - r.now; pause > options.Breaker.MinOpenMicros*5/4 {
		t.Errorf("the next outage begins with a pause of %d us", pause)
	}
}

// A Redis that hangs is probed on a fresh connection, and found as soon as it is
// back; until then there is one connection at a time.
func TestHangingRedis(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.request("a").flush()
	r.allow(1)
	for range 8 {
		r.request("a").flush()
	}
	hung := r.now
	for r.now < hung+5_000*ms {
		r.pass(max(r.conn.NextTickMicros(r.now), 1))
		if w := r.request("b").flush(); w.refused == NoCause && r.now > hung+63*ms {
			t.Fatalf("a request waits %d ms after Redis hung", (r.now-hung)/ms)
		}
	}
	r.wantInFlight(0)
	if n := r.conn.link.pipe.commands.len(); n > 1 {
		t.Errorf("%d entries in the pipe", n)
	}
	if r.streams > 10 || len(r.lines) > 2 {
		t.Errorf("%d streams, logged %q", r.streams, r.lines)
	}
	for r.conn.State() != Closed {
		r.pass(r.conn.NextTickMicros(r.now))
		if len(r.commands) > 0 {
			r.answer("+OK\r\n")
		}
		if r.now > hung+20_000*ms {
			t.Fatal("it does not find that Redis is back")
		}
	}
}
