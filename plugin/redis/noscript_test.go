package redis

import (
	"testing"

	"github.com/sluiceproxy/sluice/plugin/metric"
)

const noScript = "-NOSCRIPT No matching script. Please use EVAL.\r\n"

// A script that Redis does not know is sent along, and no client notices.
func TestNoScript(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	a, b := r.request("a").flush(), r.request("b", "c").flush()
	d := r.request("d").flush()
	for _, w := range []*client{a, b, d} {
		clear(w.tagBytes) // a Waiter may use them again once Add has returned
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
	if again[1] != r.script.plan.Script().Source {
		t.Errorf("sent source %q", again[1])
	}
	for i := 2; i < len(sent); i++ {
		if again[i] != sent[i] {
			t.Errorf("argument %d is %q, was %q", i, again[i], sent[i])
		}
	}
	r.allow(1)
	r.allow(2)
	a.want("at 1")
	b.want("at 2", "at 3")
	d.want("at 4")
	r.wantInFlight(0)
	r.wantState(Closed)
	if len(r.lines) > 0 || len(r.failed) > 0 {
		t.Errorf("logged %q, failed %v", r.lines, r.failed)
	}
}

// A refund is sent by source until one has succeeded on this stream: then Redis
// knows its script.
func TestRefundByHash(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	twoRefunds := func(stream int, want string) {
		t.Helper()
		for range 2 {
			r.conn.Refund(Charge{Script: r.script, Demand: of("a"), Cost: 1, Nonce: 7, AtMicros: 9}, r.now)
		}
		if got := r.names(); got != want {
			t.Errorf("stream %d: sent %s, want %s", stream, got, want)
		}
		for len(r.commands) > 0 {
			r.answer(":0\r\n")
		}
	}
	for stream := range 2 {
		r.request("a").flush()
		if stream > 0 {
			r.prove()
		}
		r.allow(1)
		twoRefunds(stream, "EVAL EVAL") // the second before the first one's reply
		twoRefunds(stream, "EVALSHA EVALSHA")
		r.closeStream()
	}
}

// learnRefund brings the Conn to send refunds by hash.
func (r *rig) learnRefund() {
	r.t.Helper()
	r.request("learn").flush()
	r.allow(1)
	r.conn.Refund(Charge{Script: r.script, Demand: of("learn"), Cost: 1, AtMicros: 1}, r.now)
	if got := r.answer(":1\r\n"); got[0] != "EVAL" {
		r.t.Fatalf("the first refund is sent by %s", got[0])
	}
}

// A refund that Redis does not know is sent again, and the client's next request,
// which stood behind it, is not rejected for that.
func TestNextRequestDoesNotOvertakeRefund(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name      string
		tag       string
		allowed   bool
		wantAgain bool
	}{
		{name: "rejected as if there were no refund", tag: "a", allowed: false, wantAgain: true},
		{name: "allowed all the same", tag: "a", allowed: true, wantAgain: false},
		{name: "another identity", tag: "b", allowed: false, wantAgain: false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testOptions())
			r.learnRefund()
			r.conn.Refund(Charge{Script: r.script, Demand: of("a"), Cost: 1, Nonce: 5, AtMicros: 9}, r.now)
			next := r.request(tc.tag).flush()
			r.answer(noScript)
			r.answer(decision(3, tc.allowed))
			want := "EVAL"
			if tc.wantAgain {
				want = "EVAL EVAL"
				next.want("waits")
			} else {
				next.want("at 3")
			}
			if got := r.names(); got != want {
				t.Fatalf("sent %s, want %s", got, want)
			}
			r.wantRefund("a", 9)
			if tc.wantAgain {
				r.allow(4)
				next.want("at 4")
			}
			r.wantInFlight(0)
			if r.counted[metric.ChargeRefunded] != 2 {
				t.Errorf("%d refunds were counted, want 2", r.counted[metric.ChargeRefunded])
			}
		})
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
	w.want("error_reply", "waits")
	r.answer(noScript)
	w.wantAll("error_reply")
	r.wantInFlight(0)
	if got := r.conn.link.health.breaker.row; got != 1 {
		t.Errorf("%d failures, want 1", got)
	}
}

// The timeout counts from when the check was first sent. One that has expired is
// not sent again, as it has charged nothing.
func TestNoScriptKeepsTheTimeout(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	w := r.request("a", "b").flush()
	r.pass(30 * ms)
	r.answer(noScript)
	r.pass(19 * ms)
	w.wantAll("waits")
	r.pass(1 * ms)
	w.wantAll("expired")
	r.answer(noScript)
	w.want("expired", "expired, timeout")
	if got := r.names(); got != "EVAL" {
		t.Errorf("sent %s", got)
	}
	r.allow(1)
	w.want("expired, at 1", "expired, timeout")
	r.wantInFlight(0)
}
