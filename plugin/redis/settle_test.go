package redis

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/plugin/metric"
)

// settle asks for settlements of so many charges.
func (r *rig) settle(n int) {
	for i := range n {
		r.conn.Settle(Charge{Script: r.script, Demand: of(fmt.Sprint("t", i)), Cost: 1, AtMicros: int64(100 + i)},
			nil, r.now)
	}
}

// wantSettlements checks how many have been taken by Redis, and lost.
func (r *rig) wantSettlements(sent, lost int64) {
	r.t.Helper()
	gotSent, gotLost := r.counted[metric.SettlementSent], r.counted[metric.SettlementLost]
	if gotSent != sent {
		r.t.Errorf("%d settlements sent, want %d", gotSent, sent)
	}
	if gotLost != lost {
		r.t.Errorf("%d settlements lost, want %d", gotLost, lost)
	}
}

// countSends counts the writes from now on.
func (r *rig) countSends() *countingHost {
	h := &countingHost{rig: r}
	r.conn.link.stream.host = h
	return h
}

// Settlements leave together, with the next request or, without one, the next
// tick.
func TestSettlementsLeaveTogether(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		occasion func(*rig)
		want     int // commands in the one write
	}{
		{name: "a request", occasion: func(r *rig) { r.request("a").flush() }, want: 11},
		{name: "a tick", occasion: func(r *rig) { r.pass(r.conn.NextTickMicros(r.now)) }, want: 10},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, testOptions())
			r.request("a").flush()
			r.allow(1)
			sends := r.countSends()
			r.settle(10)
			if sends.n != 0 || r.conn.Idle() {
				t.Errorf("%d writes at once; idle: %v", sends.n, r.conn.Idle())
			}
			tc.occasion(r)
			if sends.n != 1 || len(r.commands) != tc.want {
				t.Fatalf("%d writes, %d commands, want %d in one", sends.n, len(r.commands), tc.want)
			}
			for i := range 10 {
				r.wantRefund(fmt.Sprint("t", i), int64(100+i))
			}
			r.wantSettlements(10, 0)
			if r.counted[metric.ChargeRefunded] != 0 {
				t.Errorf("%d settlements were counted as refunds", r.counted[metric.ChargeRefunded])
			}
		})
	}
}

// lostSettlements are ends of a connection, and how many settlements were sent and lost.
var lostSettlements = []struct {
	name       string
	do         func(*rig)
	sent, lost int64
}{
	{name: "an error reply", do: func(r *rig) {
		r.settle(2)
		r.pass(13 * ms)
		r.answer(":0\r\n")
		r.answer("-OOM x\r\n")
	}, sent: 1, lost: 1},
	{name: "the stream is lost before the reply", do: func(r *rig) {
		r.settle(3)
		r.pass(13 * ms)
		r.answer(":0\r\n")
		r.closeStream()
	}, sent: 1, lost: 2},
	{name: "a charge of nothing", do: func(r *rig) {
		r.conn.Settle(Charge{Script: r.script, AtMicros: 1}, nil, r.now)
		r.conn.Settle(Charge{Script: r.script, Cost: 1}, nil, r.now)
	}},
	{name: "more than max_pending, not sent yet", do: func(r *rig) { r.settle(25) }, lost: 5},
	{name: "more than max_pending, without a reply", do: func(r *rig) {
		r.settle(20)
		r.pass(13 * ms)
		r.settle(5)
	}, lost: 5},
	{name: "max_pending, again and again", do: func(r *rig) {
		for range 3 {
			r.settle(20)
			r.pass(13 * ms)
			for len(r.commands) > 0 {
				r.answer(":0\r\n")
			}
		}
	}, sent: 60},
	{name: "NOSCRIPT", do: func(r *rig) {
		r.learnRefund()
		r.settle(1)
		r.pass(13 * ms)
		r.answer(noScript)
		r.answer(":0\r\n")
	}, sent: 1},
	{name: "the connection is lost, and comes back", do: func(r *rig) {
		r.closeStream()
		r.settle(2)
		r.pass(13 * ms)
		r.prove()
		r.pass(13 * ms)
		r.answer(":0\r\n")
		r.answer(":0\r\n")
	}, sent: 2},
	{name: "the connection rests", do: func(r *rig) {
		r.pass(restMicros)
		r.settle(1)
		r.pass(13 * ms)
		r.answer(":0\r\n")
	}, sent: 1},
	{name: "Redis is gone for long", do: func(r *rig) {
		r.closeStream()
		r.openErr = errHost
		r.settle(2)
		r.pass(settleMicros - minTickMicros)
		r.wantSettlements(0, 0)
		r.pass(2 * minTickMicros)
	}, lost: 2},
}

// What is lost, or beyond the bound, is counted, and stays charged.
func TestSettlementsLost(t *testing.T) {
	t.Parallel()
	for _, tc := range lostSettlements {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			options := testOptions()
			options.MaxPending = 20
			r := newRig(t, options)
			r.request("a").flush()
			r.allow(1)
			tc.do(r)
			r.wantSettlements(tc.sent, tc.lost)
			if len(r.failed) > 0 {
				t.Errorf("requests failed: %v", r.failed)
			}
		})
	}
}
