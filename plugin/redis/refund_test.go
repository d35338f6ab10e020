package redis

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/metric"
)

// wantRefund checks that the oldest command gives back what was charged to a tag
// at a Redis time, and answers it.
func (r *rig) wantRefund(tag string, at int64) {
	r.t.Helper()
	if len(r.commands) == 0 {
		r.t.Fatalf("nothing was sent, want a refund of %s", tag)
	}
	c := r.commands[0]
	refund := r.script.plan.RefundScript()
	if want := map[string]string{"EVAL": refund.Source, "EVALSHA": refund.SHA1}[c[0]]; c[1] != want {
		r.t.Errorf("sent %q, want a refund", c)
	}
	if want := "rl:{" + tag + "}:gcra:1s"; c[3] != want {
		r.t.Errorf("the refund is of %s, want %s", c[3], want)
	}
	if c[4] != "1" {
		r.t.Errorf("the refund is of %s units, want 1", c[4])
	}
	if got := c[len(c)-1]; got != fmt.Sprint(at) {
		r.t.Errorf("the refund is of the charge at %s, want %d", got, at)
	}
	r.answer(":1\r\n")
}

// What a check turns out to have charged after it expired can be given back.
func TestLateChargeIsGivenBack(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	w := r.request("a", "b", "c").flush()
	w.onCall = func(index int) {
		if h := w.checks[index]; h.expired && h.allowed {
			r.conn.Refund(w.charged(index), r.now)
		}
	}
	r.allow(1)
	r.pass(50 * ms)
	r.allow(2)                   // b
	r.answer(decision(3, false)) // c has charged nothing
	w.want("at 1", "expired, at 2", "expired, at 3")
	r.wantRefund("b", 2)
	if len(r.commands) > 0 || r.counted[metric.ChargeRefunded] != 1 {
		t.Errorf("%d refunds, then %v", r.counted[metric.ChargeRefunded], r.commands)
	}
	r.wantInFlight(0)
}

// The pipe may grow in the middle of telling what has expired.
func TestManyRefundsInExpired(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.Breaker.Failures = 1000
	r := newRig(t, options)
	var clients []*client
	for i := range minRing / 2 {
		w := r.request(fmt.Sprint("x", i), fmt.Sprint("y", i)).flush()
		w.onCall = func(index int) {
			if w.checks[index].over() {
				return
			}
			for range 3 {
				r.conn.Refund(Charge{Script: r.script, Demand: of("r"), Cost: 1, AtMicros: 1}, r.now)
			}
		}
		clients = append(clients, w)
	}
	r.pass(50 * ms)
	r.pass(10 * ms)
	for i, w := range clients {
		w.wantAll("expired")
		r.allow(int64(100 + 2*i))
		r.allow(int64(101 + 2*i))
		w.want(fmt.Sprint("expired, at ", 100+2*i), fmt.Sprint("expired, at ", 101+2*i))
	}
	for range 2 * 3 * len(clients) {
		r.wantRefund("r", 1)
	}
	r.wantInFlight(0)
}

func TestRefundNotSent(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		lost   bool
		charge Charge
	}{
		{name: "a charge of nothing", charge: Charge{AtMicros: 1}},
		{name: "a check that charged nothing", charge: Charge{Cost: 1}},
		{name: "the stream is lost", lost: true, charge: Charge{Cost: 1, AtMicros: 1}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testOptions())
			r.request("a").flush()
			r.allow(1)
			if tc.lost {
				r.closeStream()
			}
			tc.charge.Script, tc.charge.Tag = r.script, []byte("a")
			r.conn.Refund(tc.charge, r.now)
			testenv.Same(t, "the number of refunds", r.counted[metric.ChargeRefunded], 0)
			testenv.Same(t, "the number of streams", r.streams, 1)
			r.wantCommands()
		})
	}
}

// A refund that has no reply makes a stream stalled like any other command, and
// not before.
func TestRefundStalls(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	w := r.request("a").flush()
	r.allow(1)
	r.conn.Refund(w.charged(0), r.now)
	r.pass(150*ms - 1)
	if !r.open {
		t.Fatal("the stream was closed too early")
	}
	r.pass(1)
	if r.open || r.conn.link.health.breaker.row != 0 {
		t.Errorf("open %v, %d failures", r.open, r.conn.link.health.breaker.row)
	}
}

// An error reply to a refund fails no request.
func TestRefundFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	w := r.request("a").flush()
	r.allow(1)
	for range 10 {
		r.conn.Refund(w.charged(0), r.now)
		r.answer("-OOM command not allowed\r\n")
	}
	r.wantState(Closed)
	if len(r.lines) > 0 || len(r.failed) > 0 {
		t.Errorf("logged %q, failed %v", r.lines, r.failed)
	}
}
