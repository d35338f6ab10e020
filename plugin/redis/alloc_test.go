package redis

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// nullHost is a Host and an Observer that cost nothing. Other calls do not come.
type nullHost struct {
	Host
	Observer

	sent int
}

func (*nullHost) OpenStream() error         { return nil }
func (h *nullHost) Send(b []byte) error     { h.sent += len(b); return nil }
func (*nullHost) CloseStream()              {}
func (*nullHost) Warn(string)               {}
func (*nullHost) Turn(int64) bool           { return false }
func (*nullHost) RequestFailed(Cause)       {}
func (*nullHost) RoundTrip(int64)           {}
func (*nullHost) Count(metric.Event, int64) {}

// nullWaiter is a Waiter that costs nothing.
type nullWaiter struct {
	Waiter

	charge Charge
}

func (w *nullWaiter) Decided(_ int, r *Reply, _ int64) { w.charge.AtMicros = r.AtMicros }
func (w *nullWaiter) Expired(int, int64)               {}

// check sends one check of a warm connection.
func (w *nullWaiter) check(c *Conn, s *Script, tag []byte, now int64) {
	c.Begin(now)
	w.charge = Charge{Script: s, Demand: rule.Demand{Tag: tag}, Cost: 1}
	w.charge.Nonce = c.Add(w, 0, Check{Script: s, Demand: rule.Demand{Tag: tag}, Cost: 1})
	c.Flush(now)
}

// fixture holds the commands and replies of TestNothingAllocates.
type fixture struct {
	script, flight          *Script
	tag                     []byte
	reply, again, ok, taken []byte
	renewed                 []Slots
	now                     int64
}

// allocationFree are a request's ways.
var allocationFree = map[string]func(*Conn, *nullWaiter, *fixture){
	"check and reply": func(c *Conn, w *nullWaiter, f *fixture) {
		w.check(c, f.script, f.tag, f.now)
		c.Received(f.reply, f.now)
	},
	"a f.reply in two parts": func(c *Conn, w *nullWaiter, f *fixture) {
		w.check(c, f.script, f.tag, f.now)
		c.Received(f.reply[:10], f.now)
		c.Received(f.reply[10:], f.now)
	},
	"many in flight": func(c *Conn, w *nullWaiter, f *fixture) {
		for range 100 {
			w.check(c, f.script, f.tag, f.now)
		}
		for range 100 {
			c.Received(f.reply, f.now)
		}
	},
	"a refund": func(c *Conn, w *nullWaiter, f *fixture) {
		w.check(c, f.script, f.tag, f.now)
		c.Received(f.reply, f.now)
		c.Refund(w.charge, f.now)
		c.Received(f.ok, f.now)
	},
	"slots": func(c *Conn, w *nullWaiter, f *fixture) {
		w.check(c, f.flight, f.tag, f.now)
		c.Received(f.taken, f.now)
		c.Release(f.flight, f.tag, Slots{7, 1}, f.now)
		c.Received(f.ok, f.now)
		c.Renew(f.flight, f.tag, f.renewed, f.now)
		c.Flush(f.now)
		c.Received(f.ok, f.now)
	},
	"a settlement": func(c *Conn, w *nullWaiter, f *fixture) {
		w.check(c, f.script, f.tag, f.now)
		c.Received(f.reply, f.now)
		c.Settle(w.charge, nil, f.now)
		c.Tick(f.now)
		c.Received(f.ok, f.now)
	},
	"timed out": func(c *Conn, w *nullWaiter, f *fixture) {
		w.check(c, f.script, f.tag, f.now)
		for range 5 {
			f.now += 13 * ms
			c.Tick(f.now)
		}
		c.Received(f.reply, f.now)
		w.check(c, f.script, f.tag, f.now)
		c.Received(f.reply, f.now)
	},
	"at rest, and opened again": func(c *Conn, w *nullWaiter, f *fixture) {
		w.check(c, f.script, f.tag, f.now)
		c.Received(f.reply, f.now)
		f.now += restMicros
		c.Tick(f.now)
	},
	"sent by source": func(c *Conn, w *nullWaiter, f *fixture) {
		w.check(c, f.script, f.tag, f.now)
		c.Received(f.again, f.now)
		c.Received(f.reply, f.now)
	},
}

// Once the buffers have their size, nothing on a request's way allocates.
func TestNothingAllocates(t *testing.T) {
	f := &fixture{
		script: newScript(t, "plain"), flight: newScript(t, "slots"),
		tag:   []byte("per-user|0123456789abcdef0123456789abcdef"),
		reply: []byte(decision(1_790_000_000_000_000, true)), again: []byte(namedReplies["noscript"]), ok: []byte(":0\r\n"),
		taken: []byte(namedReplies["slots"]), renewed: []Slots{{7, 1}, {8, 2}}, now: 1,
	}
	for name, run := range allocationFree {
		host, w := &nullHost{}, &nullWaiter{}
		c := New(host, host, newRig(t, "").conn.options)
		run(c, w, f)
		if allocs := testing.AllocsPerRun(100, func() { run(c, w, f) }); allocs != 0 {
			t.Errorf("%s: %v allocations", name, allocs)
		}
		testenv.Same(t, name+": that something was sent", host.sent > 0, true)
		testenv.Same(t, name+": requests in flight", c.InFlight(), 0)
		testenv.Same(t, name+": the breaker", c.State(), Closed)
	}
}

func BenchmarkEncodeCheck(b *testing.B) {
	s := newScript(b, "plain")
	k := command{Demand: rule.Demand{Costs: []int64{1}}}
	k.script, k.Tag = s, []byte("per-user|0123456789abcdef0123456789abcdef")
	var out []byte
	b.ReportAllocs()
	for b.Loop() {
		out = k.appendTo(out[:0])
	}
	b.SetBytes(int64(len(out)))
}

// One check, sent and decided, of so many that are in the pipe at a time, with replies in one message.
func BenchmarkRoundTrip(b *testing.B) {
	for _, inFlight := range []int{1, 100} {
		b.Run(fmt.Sprint(inFlight), func(b *testing.B) {
			s, c, w := newScript(b, "plain"), New(&nullHost{}, &nullHost{}, newRig(b, "").conn.options), &nullWaiter{}
			tag := []byte("per-user|0123456789abcdef0123456789abcdef")
			replies := bytes.Repeat([]byte(decision(1_790_000_000_000_000, true)), inFlight)
			b.ReportAllocs()
			for b.Loop() {
				w.check(c, s, tag, 1)
				if c.InFlight() == int64(inFlight) {
					c.Received(replies, 1)
				}
			}
		})
	}
}
