package redis

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/metric"
)

// Losing a stream for which no request waits is not a failure, and the next request opens another
// at once.
func TestIdleStreamLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.request("a").flush()
	r.allow(1)
	r.closeStream()
	testenv.Same(t, "failures in a row", r.conn.link.health.breaker.row, 0)
	testenv.Same(t, "causes for which requests failed", len(r.failed), 0)
	testenv.Same(t, "the next tick", r.conn.NextTickMicros(r.now), 0)
	w := r.request("b").flush()
	w.wantAll("waits")
	r.prove()
	r.allow(2)
	w.want("at 2")
	if r.streams != 2 || r.reconnected != 1 {
		t.Errorf("%d streams, %d reconnects", r.streams, r.reconnected)
	}
}

// A stream that is lost fails all that wait for it, and is one failure.
func TestStreamLost(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.request("a").flush()
	r.allow(1)
	var clients []*client
	for range 50 {
		clients = append(clients, r.request("a", "b").flush())
	}
	r.allow(1)
	r.receive("*5\r\n:1") // half a reply
	r.closeStream()
	clients[0].want("at 1", "connection_lost")
	for _, w := range clients[1:] {
		w.wantAll("connection_lost")
	}
	r.wantInFlight(0)
	r.wantState(Closed)
	if got := r.conn.link.health.breaker.row; got != 1 {
		t.Errorf("%d failures, want 1", got)
	}
	if r.failed[Lost] != len(clients) {
		t.Errorf("failed %v, want all %d", r.failed, len(clients))
	}
	w := r.request("d").flush() // at once, and what came of the last stream is forgotten
	r.prove()
	r.allow(7)
	w.want("at 7")
	r.closeStream()
	r.closeStream() // tells nothing new
}

// What has expired, and was counted as a timeout, hears of the lost stream too,
// and that is not another failure.
func TestStreamLostAfterTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.request("a").flush()
	r.allow(1)
	w := r.request("b").flush()
	r.pass(60 * ms)
	r.closeStream()
	w.want("expired, connection_lost")
	if got := r.conn.link.health.breaker.row; got != 1 {
		t.Errorf("%d failures, want 1", got)
	}
	if r.failed[Timeout] != 1 || r.failed[Lost] != 0 {
		t.Errorf("failed %v, want one timeout", r.failed)
	}
}

// Envoy may close the stream inside the call that opens it, or refuse to open it.
func TestCannotConnect(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(*rig){
		"closed while opening": func(r *rig) { r.closeInOpen = true },
		"refused":              func(r *rig) { r.openErr = errHost },
		"both":                 func(r *rig) { r.closeInOpen, r.openErr = true, errHost },
	} {
		r := newRig(t, testOptions())
		arrange(r)
		for range 4 {
			if w := r.request("a").flush(); w.refused != Unreachable {
				t.Errorf("%s: refused %v", name, w.refused)
			}
		}
		if r.streams != 1 {
			t.Errorf("%s: tried %d times, want no more than once in a pause", name, r.streams)
		}
		if pause := r.conn.link.stream.reopenMicros - r.now; pause > 125*ms {
			t.Errorf("%s: the first pause is %d us", name, pause)
		}
		r.wantState(Closed)
		r.request("a").flush()
		r.wantState(Open)
		r.wantInFlight(0)
		if r.failed[Unreachable] != 5 || r.reconnected != 0 {
			t.Errorf("%s: failed %v, %d reconnects", name, r.failed, r.reconnected)
		}
	}
}

// The log says why Envoy does not open a stream, such as for an unknown cluster.
func TestOpenErrorIsLogged(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.openErr = errHost
	for range 5 {
		r.request("a").flush()
	}
	if len(r.lines) != 1 || !strings.Contains(r.lines[0], errHost.Error()) {
		t.Errorf("logged %q", r.lines)
	}
}

// Attempts to connect are as far apart as the breaker's probes, even when the
// breaker stays closed.
func TestReopenWithBackoff(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.Breaker.Failures = 1 << 30
	r := newRig(t, options)
	attempt := func() bool { // connects, in vain
		streams := r.streams
		r.request("a").flush()
		if r.streams == streams {
			return false
		}
		r.closeStream()
		return true
	}
	base := options.Breaker.MinOpenMicros
	for i := range 12 {
		if !attempt() {
			t.Fatalf("no attempt %d", i)
		}
		failed := r.now
		for !attempt() {
			if r.now += 1 * ms; r.now > failed+20_000*ms {
				t.Fatal("it never tries again")
			}
		}
		pause := r.now - failed
		r.now = failed + pause
		low, high := base*4/5, base*5/4+1*ms
		low, high = max(low, options.Breaker.MinOpenMicros), min(high, options.Breaker.MaxOpenMicros+1*ms)
		if pause < low || pause > high {
			t.Errorf("pause %d is %d us, want %d to %d", i, pause, low, high)
		}
		// The attempt that ended the loop has failed, too, and doubled the pause.
		base = min(base*2, options.Breaker.MaxOpenMicros)
		r.now = r.conn.link.stream.reopenMicros
		base = min(base*2, options.Breaker.MaxOpenMicros)
	}
	r.request("b").flush()
	r.allow(1)
	r.closeStream()
	if w := r.request("c").flush(); w.refused != NoCause {
		t.Errorf("a stream that worked was lost, and the next request is refused: %v", w.refused)
	}
	r.closeStream()
	if pause := r.conn.link.stream.reopenMicros - r.now; pause > options.Breaker.MinOpenMicros*5/4 {
		t.Errorf("after a stream that worked, the first pause is %d us", pause)
	}
}

// A stream that Envoy opens and then cannot connect is unreachable, not lost,
// and its requests are one failure.
func TestConnectionRefusedLater(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	a, b := r.request("a").flush(), r.request("b").flush()
	r.closeStream()
	a.wantAll(Unreachable.String())
	b.wantAll(Unreachable.String())
	if w := r.request("c").flush(); w.refused != Unreachable {
		t.Errorf("refused %v, want a pause between attempts", w.refused)
	}
	if got := r.conn.link.health.breaker.row; got != 2 {
		t.Errorf("%d failures, want 2: the stream and the request after it", got)
	}
	again := r.conn.link.stream.reopenMicros
	r.closeStream()
	if r.conn.link.stream.reopenMicros != again {
		t.Error("what is closed was closed again, and the pause became longer")
	}
}

// Failed may be called inside Flush.
func TestSendFails(t *testing.T) {
	t.Parallel()
	for name, arrange := range map[string]func(*rig){
		"refused": func(r *rig) { r.sendErr = errHost },
		"closed":  func(r *rig) { r.closeInSend = true },
	} {
		r := newRig(t, testOptions())
		r.request("a").flush()
		r.allow(1)
		waiting := r.request("b").flush()
		arrange(r)
		w := r.request("c", "d")
		w.onCall = func(int) { r.conn.Refund(Charge{Script: r.script, Demand: of("c"), Cost: 1, AtMicros: 1}, r.now) }
		w.flush()
		waiting.wantAll(Lost.String())
		w.wantAll("connection_lost")
		r.wantInFlight(0)
		testenv.Same(t, name+": that the stream is open", r.open, false)
		testenv.Same(t, name+": the number of refunds", r.counted[metric.ChargeRefunded], 0)
		testenv.Same(t, name+": failures in a row", r.conn.link.health.breaker.row, 1)
		r.sendErr, r.closeInSend = nil, false
		next := r.request("e").flush()
		r.prove()
		r.allow(5)
		r.wantRefund("c", 1) // both in one
		next.want("at 5")
	}
}

// The stream may end while what Waiters and replies have caused is sent.
func TestSendFailsAfterReplies(t *testing.T) {
	t.Parallel()
	for _, closed := range []bool{false, true} {
		r := newRig(t, testOptions())
		first, waiting := r.request("a").flush(), r.request("b").flush()
		first.onCall = func(int) { r.conn.Refund(first.charged(0), r.now) }
		if r.closeInSend = closed; !closed {
			r.sendErr = errHost
		}
		r.allow(1)
		waiting.wantAll("connection_lost")
		r.wantInFlight(0)
		if r.open {
			t.Error("the stream is still open")
		}
	}
}

// What many replies cause leaves in one Send.
func TestCommandsAreBatched(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	for range 3 {
		r.request("a").flush()
		w := r.request("b").flush()
		w.onCall = func(int) { r.conn.Refund(w.charged(0), r.now) }
	}
	sends := &countingHost{rig: r}
	r.conn.link.stream.host = sends
	r.receive(strings.Repeat(noScript+decision(1, true), 3))
	if sends.n != 1 || len(r.commands) != 6+6 {
		t.Errorf("%d commands in %d sends, want 6 in one", len(r.commands)-6, sends.n)
	}
}

type countingHost struct {
	*rig
	n int
}

func (h *countingHost) Send(commands []byte) error {
	h.n++
	return h.rig.Send(commands)
}
