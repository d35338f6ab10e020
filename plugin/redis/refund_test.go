package redis

import (
	"fmt"
	"testing"
)

// wantRefund checks that the oldest command gives back what was charged to a tag
// at a Redis time, and answers it.
func (r *rig) wantRefund(tag string, at int64) {
	r.t.Helper()
	if len(r.commands) == 0 {
		r.t.Fatalf("nothing was sent, want a refund of %s", tag)
	}
	c := r.commands[0]
	if c[0] != "EVAL" || c[1] != r.script.policy.RefundScript().Source ||
		c[3] != "rl:{"+tag+"}:gcra:1s" || c[4] != "1" || c[6] != fmt.Sprint(at) {
		r.t.Errorf("sent %q, want a refund of %s at %d", c, tag, at)
	}
	r.answer(":1\r\n")
}

// What timed out and was denied gives back what it turns out to have charged.
func TestLateChargeIsGivenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	w := r.request("a", "b", "c").flush()
	w.giveBack = true
	r.allow(1)
	w.onFailed = func() { // as the request does with what it knows it has charged
		r.conn.Refund(r.script, []byte("a"), 1, w.nonces[0], w.decided[0], r.now)
	}
	r.pass(50 * ms)
	w.wantFailed(Timeout)
	r.allow(2)                   // b
	r.answer(decision(3, false)) // c has charged nothing
	r.wantRefund("a", 1)
	r.wantRefund("b", 2)
	if len(r.commands) > 0 || r.refunded != 2 {
		t.Errorf("%d refunds, then %v", r.refunded, r.commands)
	}
	r.wantInFlight(0)
}

// What timed out and was let through keeps its charge.
func TestLateChargeStands(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	w := r.request("a").flush()
	r.pass(50 * ms)
	w.wantFailed(Timeout)
	r.allow(1)
	if len(r.commands) > 0 || r.refunded != 0 {
		t.Errorf("%d refunds, %v", r.refunded, r.commands)
	}
}

// The pipe may grow in the middle of failing what waits.
func TestManyRefundsInFailed(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.Breaker.Failures = 1000
	r := newRig(t, options)
	var clients []*client
	for i := range minRing / 2 {
		w := r.request(fmt.Sprint("x", i), fmt.Sprint("y", i)).flush()
		w.giveBack = true
		w.onFailed = func() {
			for range 3 {
				r.conn.Refund(r.script, []byte("r"), 1, 1, 1, r.now)
			}
		}
		clients = append(clients, w)
	}
	r.pass(50 * ms)
	r.pass(10 * ms)
	for i, w := range clients {
		w.wantFailed(Timeout)
		r.allow(int64(100 + 2*i))
		r.allow(int64(101 + 2*i))
	}
	for range 3 * len(clients) {
		r.wantRefund("r", 1)
	}
	for i := range clients {
		r.wantRefund(fmt.Sprint("x", i), int64(100+2*i))
		r.wantRefund(fmt.Sprint("y", i), int64(101+2*i))
	}
	r.wantInFlight(0)
}

// A charge of nothing needs no refund, and one that has no stream gets none.
func TestRefundNotSent(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.conn.Refund(r.script, []byte("a"), 1, 1, 1, r.now)
	r.request("a").flush()
	r.allow(1)
	r.conn.Refund(r.script, []byte("a"), 0, 1, 1, r.now)
	if r.refunded != 0 || r.streams != 1 || len(r.commands) > 0 {
		t.Errorf("%d refunds, %d streams, sent %v", r.refunded, r.streams, r.commands)
	}
}

// A refund that has no reply makes a stream stalled like any other command, and
// not before.
func TestRefundStalls(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.request("a").flush()
	r.allow(1)
	r.conn.Refund(r.script, []byte("a"), 1, 1, 1, r.now)
	r.pass(150*ms - 1)
	if !r.open {
		t.Fatal("the stream was closed too early")
	}
	r.pass(1)
	if r.open || r.conn.breaker.failures != 0 {
		t.Errorf("open %v, %d failures", r.open, r.conn.breaker.failures)
	}
}

// An error reply to a refund is nobody's failure.
func TestRefundFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.request("a").flush()
	r.allow(1)
	for range 10 {
		r.conn.Refund(r.script, []byte("a"), 1, 1, 1, r.now)
		r.answer("-OOM command not allowed\r\n")
	}
	r.wantState(Closed)
	if len(r.lines) > 0 || len(r.failed) > 0 {
		t.Errorf("logged %q, failed %v", r.lines, r.failed)
	}
}
