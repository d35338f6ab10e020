package redis

import (
	"fmt"
	"path"
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// However short the pauses compared with the timeout, a probe does not wait behind what
// a stalled stream owes.
func TestProbeLeavesStalledStream(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.TimeoutMicros = 1_000 * ms
	r := newRig(t, options)
	r.request("a").flush()
	r.allow(1)
	for range 5 {
		r.request("a").flush()
	}
	r.pass(500 * ms)
	young := r.request("b").flush()
	r.pass(500 * ms)
	r.wantState(Open)
	if !r.open {
		t.Error("the stream was closed when the breaker opened: it may answer yet")
	}
	r.passPause()
	r.wantState(HalfOpen)
	if r.streams != 2 || r.names() != "EVAL" {
		t.Errorf("%d streams, sent %s; want the probe on another stream", r.streams, r.names())
	}
	young.want("connection_lost")
	r.wantInFlight(0)
	r.answer("+OK\r\n")
	r.wantState(Closed)
}

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

// The probe writes, so that what refuses writes fails it. It asks in turn the hash
// slot that was decided last, the one that failed last, and any other.
func TestProbeCommand(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		tags [2]string // of the check that was decided last, and that failed last
		want []string  // keys; "*" stands for anything
	}{
		{
			name: "several slots", tags: [2]string{"good", "user|{7}"},
			want: []string{"rl:{good}:probe", "rl:{user|{7}}:probe", "rl:{sluice*}:probe", "rl:{good}:probe"},
		},
		{
			name: "nothing was ever decided", tags: [2]string{"", "bad"},
			want: []string{"rl:{bad}:probe", "rl:{bad}:probe", "rl:{sluice*}:probe"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testOptions())
			if tag := tc.tags[0]; tag != "" {
				r.request(tag).flush()
				r.allow(1)
			}
			r.trip(4)
			r.request(tc.tags[1]).flush()
			r.answer("-CLUSTERDOWN Hash slot not served\r\n")
			for _, key := range tc.want {
				r.passPause()
				got := r.answer("-CLUSTERDOWN Hash slot not served\r\n")
				if want := []string{"EVAL", "return redis.call('SET', KEYS[1], '', 'PX', 1)", "1"}; !slices.Equal(got[:3], want) {
					t.Errorf("sent %q, want %q", got, want)
				}
				if match, _ := path.Match(key, got[3]); !match || len(got) != 4 {
					t.Errorf("probed %q, want %s", got[3:], key)
				}
			}
		})
	}
}

// A demoted primary answers, and must not pass for a Redis that decides; each
// probe asks on a connection of its own.
func TestProbeOfReplica(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	const readOnly = "-READONLY You can't write against a read only replica.\r\n"
	for i := range 5 {
		r.request("a").flush()
		if i == 1 { // on another connection, which answers
			r.answer(readOnly)
		}
		r.answer(readOnly)
	}
	for i := range 3 {
		r.passPause()
		r.answer(readOnly)
		r.wantState(Open)
		if want := 2 + i; r.streams != want || r.open {
			t.Errorf("%d streams, want %d; open: %v", r.streams, want, r.open)
		}
	}
}

// A probe that times out has failed; its reply, when it comes, closes nothing,
// and the next probe goes out on another connection.
func TestStaleProbe(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.trip(5)
	r.passPause()
	r.pass(50*ms - 1)
	r.wantState(HalfOpen)
	r.pass(1)
	r.wantState(Open)
	r.answer("+OK\r\n")
	r.wantState(Open)
	r.passPause()
	r.wantState(HalfOpen)
	if r.streams != 1 {
		t.Errorf("%d streams, want the one that answers", r.streams)
	}
	r.pass(50 * ms)
	r.wantState(Open)
	r.passPause()
	if r.streams != 2 || r.names() != "EVAL" {
		t.Errorf("%d streams, sent %s; want a fresh one for the probe", r.streams, r.names())
	}
	r.answer("+OK\r\n")
	r.wantState(Closed)
	want := []BreakerState{Open, HalfOpen, Open, HalfOpen, Open, HalfOpen, Closed}
	if fmt.Sprint(r.states) != fmt.Sprint(want) {
		t.Errorf("states %v, want %v", r.states, want)
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

// The probe's stream may fail in every way.
func TestProbeCannotBeSent(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(*rig){
		"stream refused":       func(r *rig) { r.openErr = errHost },
		"closed while opening": func(r *rig) { r.closeInOpen = true },
		"send refused":         func(r *rig) { r.sendErr = errHost },
		"closed while sending": func(r *rig) { r.closeInSend = true },
	} {
		r := newRig(t, testOptions())
		r.trip(5)
		r.closeStream()
		fault(r)
		for i := range 3 {
			r.passPause()
			r.wantState(Open)
			if r.streams != 2+i || r.conn.link.pipe.commands.len() != 0 {
				t.Errorf("%s: %d streams, %d entries", name, r.streams, r.conn.link.pipe.commands.len())
			}
		}
		r.openErr, r.sendErr, r.closeInOpen, r.closeInSend = nil, nil, false, false
		r.passPause()
		r.wantState(HalfOpen)
		r.closeStream()
		r.wantState(Open)
		r.passPause()
		r.answer("+OK\r\n")
		r.wantState(Closed)
	}
}

// A reply that SET does not give fails the probe.
func TestProbeAnsweredStrangely(t *testing.T) {
	t.Parallel()
	for _, reply := range []string{":1\r\n", "$-1\r\n", "*0\r\n", "x"} {
		r := newRig(t, testOptions())
		r.trip(5)
		r.passPause()
		r.answer(reply)
		r.wantState(Open)
		if r.open {
			t.Errorf("%q: the stream is still open", reply)
		}
	}
}

// Redis has answered on another stream once it has carried out a command there. That a stream was
// opened says nothing, nor does what a proxy answers for Redis.
func TestProbeIsNoReconnect(t *testing.T) {
	t.Parallel()
	r := loggedInRig(t)
	r.trip(5)
	r.closeStream()
	for _, tc := range []struct {
		name   string
		answer func()
		want   int
	}{
		{"no answer", func() { r.pass(50 * ms) }, 0},
		{"closed", r.closeStream, 0},
		{"a proxy that Redis does not answer", func() {
			r.answer("+OK\r\n")
			r.answer("-upstream failure\r\n")
		}, 0},
		{"Redis, on the same stream", func() { r.answer("+OK\r\n") }, 1},
	} {
		r.passPause()
		tc.answer()
		testenv.Same(t, tc.name+": reconnects", r.reconnected, tc.want)
	}
	r.request("a").flush()
	r.allow(1)
	testenv.Same(t, "reconnects once it is back", r.reconnected, 1)
}
