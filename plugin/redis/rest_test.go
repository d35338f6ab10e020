package redis

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// A stream that was not needed for a minute is closed, and opened again on
// demand, with no failure and nothing that would empty a cache.
func TestStreamRests(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		wake func(*rig)
	}{
		{name: "for a request", wake: func(r *rig) { r.request("b").flush() }},
		{name: "for a refund", wake: func(r *rig) {
			r.conn.Refund(Charge{Script: r.script, Demand: of("a"), Cost: 1, AtMicros: 1}, r.now)
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := loggedInRig(t)
			if next := r.conn.NextTickMicros(r.now); next != restMicros {
				t.Errorf("the next tick is in %d us, want a minute", next)
			}
			r.pass(restMicros - 1)
			if !r.open {
				t.Fatal("the stream was closed too early")
			}
			r.pass(minTickMicros)
			if r.open {
				t.Fatal("the stream is still open")
			}
			if next := r.conn.NextTickMicros(r.now); next != 0 {
				t.Errorf("the next tick is in %d us, and nothing waits for it", next)
			}
			tc.wake(r)
			if got := r.commands[0][0]; got != "AUTH" || len(r.commands) != 2 {
				t.Errorf("sent %v, want AUTH and one command", r.commands)
			}
			if r.streams != 2 || r.reconnected != 0 {
				t.Errorf("%d streams, %d reconnects", r.streams, r.reconnected)
			}
			r.wantNoComplaint("opened again")
			testenv.SameList(t, "the breaker's states", r.states, nil)
		})
	}
}

// A stream that is used now and then stays open.
func TestStreamDoesNotRest(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	for range 10 {
		r.request("a").flush()
		r.allow(1)
		r.pass(restMicros - minTickMicros)
	}
	if r.streams != 1 {
		t.Errorf("%d streams, want one", r.streams)
	}
}

// A stream that nothing needs rests, however young streams have to be: a rotation is no use of it.
func TestRotatingStreamRests(t *testing.T) {
	t.Parallel()
	for _, maxAge := range []int64{1_000 * ms, 50_000 * ms} {
		options := testOptions()
		options.MaxAgeMicros = maxAge
		r := newRig(t, options)
		r.request("a").flush()
		r.allow(1)
		for end := r.now + restMicros; r.now < end; {
			r.pass(500 * ms)
			r.conn.Tick(r.now) // which something else needs
			for len(r.besideCommands) > 0 {
				r.answerBeside("+OK\r\n")
			}
		}
		r.pass(100 * ms)
		r.wantStreams("after a minute", false, false)
		testenv.Same(t, "the next tick", r.conn.NextTickMicros(r.now), 0)
	}
	options := testOptions()
	options.MaxAgeMicros = 1_000 * ms
	r := newRig(t, options)
	r.request("a").flush()
	r.allow(1)
	r.pass(restMicros)
	r.wantStreams("with no tick before", false, false)
}
