package redis

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

const age = 10_000 * ms

func rotatingRig(t *testing.T) *rig {
	t.Helper()
	options := testOptions()
	options.MaxAgeMicros = age
	r := newRig(t, options)
	r.request("a").flush()
	r.allow(1)
	return r
}

// grow lets the stream grow old under requests, until a new one stands next to it.
func (r *rig) grow() {
	r.t.Helper()
	for range 2000 {
		if r.besideOpen {
			return
		}
		r.request("a").flush()
		r.pass(10 * ms)
		r.allow(1)
	}
	r.t.Fatal("the stream was not replaced")
}

// A stream that is old is replaced: the new one is asked once it has answered, and the old
// one goes when it has brought what it owes.
func TestRotation(t *testing.T) {
	t.Parallel()
	r := rotatingRig(t)
	began := r.now
	r.grow()
	if took := r.now - began; took < age*4/5 || took > age*6/5+20*ms {
		t.Errorf("replaced after %d ms, want %d and a fifth", took/ms, age/ms)
	}
	if len(r.besideCommands) != 1 || r.besideCommands[0][0] != "EVAL" {
		t.Errorf("a new stream carries %v, want one probe", r.besideCommands)
	}
	old := r.request("before").flush() // the one in use is asked until the new one has answered
	r.answerBeside("+OK\r\n")
	r.wantStreams("once the new one has answered", true, true)
	testenv.Same(t, "replies that the old one owes", len(r.besideCommands), 1)
	next := r.request("after").flush()
	r.allow(3)
	next.want("at 3")
	old.want("waits")
	r.answerBeside(decision(2, true))
	old.want("at 2")
	r.pass(20 * ms)
	r.wantStreams("once the old one owes nothing", true, false)
	testenv.Same(t, "the number of reconnects", r.reconnected, 0)
	testenv.Same(t, "causes for which requests failed", len(r.failed), 0)
	r.grow() // and again
}

// Requests whose replies the old stream still owes keep others waiting in the worker: Redis answers, and
// none of them is refused as there are too many.
func TestCrowdedThroughRotation(t *testing.T) {
	t.Parallel()
	r := rotatingRig(t)
	r.grow()
	r.request("before").flush()
	testenv.Same(t, "crowded before the new stream has answered", r.conn.Crowded(1, r.now), true)
	r.answerBeside("+OK\r\n")
	r.wantStreams("once the new one has answered", true, true)
	testenv.Same(t, "crowded by what the old one owes", r.conn.Crowded(1, r.now), true)
	r.answerBeside(decision(2, true))
	testenv.Same(t, "crowded once that has come", r.conn.Crowded(1, r.now), false)
}

// Whatever becomes of a new stream, the one in use goes on, and no request notices.
func TestRotationFails(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]func(*rig){
		"closed":        func(r *rig) { r.closeBeside() },
		"an error":      func(r *rig) { r.answerBeside("-NOAUTH Authentication required.\r\n") },
		"no RESP":       func(r *rig) { r.answerBeside("HTTP/1.1 400 Bad Request\r\n") },
		"never answers": func(r *rig) { r.busy(candidateMicros + 100*ms) },
	} {
		r := rotatingRig(t)
		r.grow()
		fails(r)
		r.wantStreams(name, true, false)
		w := r.request("b").flush()
		r.allow(4)
		w.want("at 4")
		r.wantState(Closed)
		r.wantNoComplaint(name)
		before := r.now
		r.grow()
		if pause := r.now - before; pause > rotateAgainMicros {
			t.Errorf("%s: tried again after %d ms", name, pause/ms)
		}
	}
}

// busy lets time pass under requests that are decided.
func (r *rig) busy(micros int64) {
	r.t.Helper()
	for end := r.now + micros; r.now < end; {
		r.request("a").flush()
		r.pass(10 * ms)
		r.allow(1)
	}
}

// A stream that cannot be opened leaves everything as it is.
func TestRotationCannotConnect(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(*rig){
		"refused":              func(r *rig) { r.openErr = errHost },
		"closed while opening": func(r *rig) { r.closeInOpen = true },
	} {
		r := rotatingRig(t)
		arrange(r)
		r.busy(2 * age)
		r.wantStreams(name, true, false)
		if r.streams < 2 {
			t.Errorf("%s: %d streams, want 2 at least", name, r.streams)
		}
		r.wantState(Closed)
	}
}

// The old stream is lost with what it owes, or stalls: that fails, and nothing else does.
func TestRetiredStreamLost(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lose func(*rig)
		want string
	}{
		"closed": {func(r *rig) { r.closeBeside() }, "connection_lost"},
		"stalls": {func(r *rig) { r.pass(stalledTimeouts*50*ms + 40*ms) }, "expired, connection_lost"},
	} {
		r := rotatingRig(t)
		r.grow()
		w := r.request("old").flush()
		r.answerBeside("+OK\r\n")
		c.lose(r)
		w.want(c.want)
		if r.besideOpen || !r.open {
			t.Errorf("%s: beside %v, open %v", name, r.besideOpen, r.open)
		}
		r.wantState(Closed)
		next := r.request("new").flush()
		r.allow(5)
		next.want("at 5")
	}
}

// The stream in use is lost while a new one is tried: what was in flight fails.
func TestLostDuringRotation(t *testing.T) {
	t.Parallel()
	r := rotatingRig(t)
	r.grow()
	w := r.request("b").flush()
	r.closeStream()
	w.want("connection_lost")
	r.answerBeside("+OK\r\n") // takes the place
	next := r.request("c").flush()
	r.allow(6)
	next.want("at 6")
	r.pass(20 * ms)
	if !r.open || r.besideOpen {
		t.Errorf("open %v, beside %v", r.open, r.besideOpen)
	}
}

// A password is sent on a new stream before the probe.
func TestRotationLogsIn(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.MaxAgeMicros, options.Password = age, "s3cr3t"
	r := newRig(t, options)
	r.request("a").flush()
	r.answer("+OK\r\n")
	r.allow(1)
	r.grow()
	if got := r.answerBeside("+OK\r\n"); got[0] != "AUTH" {
		t.Errorf("the first command of a new stream is %q", got)
	}
	w := r.request("b").flush() // still by the old one
	r.allow(2)
	w.want("at 2")
	r.answerBeside("+OK\r\n")
	r.request("c").flush()
	r.allow(3)
}

// Without an age streams live for ever.
func TestNoRotation(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.busy(30 * 60_000 * ms / 10)
	if r.streams != 1 {
		t.Errorf("%d streams, want 1", r.streams)
	}
}

// The log says what a relay has against this proxy.
func TestRelayRefuses(t *testing.T) {
	t.Parallel()
	for status, want := range map[uint32]string{
		7:  "the relay refuses this proxy",
		12: "no such route at the relay",
		14: "no connection",
	} {
		r := newRig(t, testOptions())
		r.closeInOpen, r.closeStatus = true, status
		for range 5 {
			r.request("a").flush()
		}
		if len(r.lines) != 1 || !strings.Contains(r.lines[0], want) {
			t.Errorf("status %d: logged %q, want %q", status, r.lines, want)
		}
	}
}
