package redis

import "testing"

const noScript = "-NOSCRIPT No matching script. Please use EVAL.\r\n"

// A script that Redis does not know is sent along, and nobody notices.
func TestNoScript(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	a, b := r.request("a").flush(), r.request("b", "c").flush()
	d := r.request("d").flush()
	for _, w := range []*client{a, b, d} {
		clear(w.tagBytes) // a Waiter's tags are good during Add only
	}
	sent := r.commands[0]
	r.answer(noScript)
	r.answer(noScript) // b
	r.allow(3)         // c
	r.allow(4)
	if got := r.names(); got != "EVAL EVAL" {
		t.Fatalf("sent %s", got)
	}
	again := r.commands[0]
	if again[1] != r.script.policy.Script().Source {
		t.Errorf("sent source %q", again[1])
	}
	for i := 2; i < len(sent); i++ {
		if again[i] != sent[i] {
			t.Errorf("argument %d is %q, was %q", i, again[i], sent[i])
		}
	}
	r.allow(1)
	r.allow(2)
	a.wantDecided(1)
	b.wantDecided(2, 3)
	d.wantDecided(4)
	r.wantInFlight(0)
	r.wantState(Closed)
	if len(r.lines) > 0 || len(r.failed) > 0 {
		t.Errorf("logged %q, failed %v", r.lines, r.failed)
	}
}

// A refund needs no second round trip, in which the client's next request could
// overtake it, even on a Redis that has never seen its script.
func TestRefundBringsItsSource(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.request("a").flush()
	r.allow(1)
	r.conn.Refund(r.script, []byte("a"), 7, 8, 9, r.now)
	if sent := r.answer(noScript); sent[0] != "EVAL" || sent[1] != r.script.policy.RefundScript().Source {
		t.Errorf("sent %q", sent)
	}
	if len(r.commands) > 0 || r.refunded != 1 { // it is not sent again
		t.Errorf("%d refunds, then %v", r.refunded, r.commands)
	}
}

// A Redis that does not know a script it was just sent has failed.
func TestNoScriptTwice(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	w := r.request("a", "b").flush()
	r.answer(noScript)
	r.answer(noScript)
	r.answer(noScript)
	w.wantFailed(ErrorReply)
	r.answer(noScript)
	r.wantInFlight(0)
	if got := r.conn.breaker.failures; got != 1 {
		t.Errorf("%d failures, want 1", got)
	}
}

// The timeout counts from when the check was first sent.
func TestNoScriptKeepsTheTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	w := r.request("a", "b").flush()
	r.pass(30 * ms)
	r.answer(noScript)
	r.pass(19 * ms)
	w.wantWaiting()
	r.pass(1 * ms)
	w.wantFailed(Timeout)
	r.answer(noScript) // b is not sent again, as nobody waits for it
	if got := r.names(); got != "EVAL" {
		t.Errorf("sent %s", got)
	}
	r.allow(1)
	r.wantInFlight(0)
}

// A check that was abandoned is not sent again: it has charged nothing.
func TestNoScriptForAbandoned(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.request("a").flush().abandon(true)
	r.answer(noScript)
	if len(r.commands) > 0 || r.refunded != 0 {
		t.Errorf("sent %v", r.commands)
	}
	r.wantInFlight(0)
}
