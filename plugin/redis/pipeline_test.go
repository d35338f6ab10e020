package redis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Commands leave at once, before any reply, and replies go to them in order.
func TestPipelining(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	first := r.request("a").flush()
	second := r.request("b", "c").flush()
	third := r.request("d").flush()
	if got := r.names(); got != "EVALSHA EVALSHA EVALSHA EVALSHA" {
		t.Fatalf("sent %s", got)
	}
	r.wantInFlight(3)
	for i, tag := range []string{"a", "b", "c", "d"} {
		if key := r.allow(int64(i + 1))[3]; key != "rl:{"+tag+"}:gcra:1s" {
			t.Errorf("command %d has key %s", i, key)
		}
	}
	first.want("at 1")
	second.want("at 2", "at 3")
	third.want("at 4")
	r.wantInFlight(0)
	if r.streams != 1 {
		t.Errorf("%d streams", r.streams)
	}
}

// However the bytes of many replies are cut, each goes to its request.
func TestRepliesSplitAndMerged(t *testing.T) {
	t.Parallel()
	const requests = 3
	var replies strings.Builder
	for i := range requests {
		replies.WriteString(decision(int64(i+1), i%2 == 0))
	}
	all := replies.String()
	for first := range len(all) + 1 {
		for second := first; second <= len(all); second++ {
			r := newRig(t, testOptions())
			var clients []*client
			for i := range requests {
				clients = append(clients, r.request(fmt.Sprint(i)).flush())
			}
			for _, part := range []string{all[:first], all[first:second], all[second:]} {
				r.receive(part)
			}
			for i, w := range clients {
				w.want(fmt.Sprint("at ", i+1))
				if w.checks[0].allowed != (i%2 == 0) {
					t.Errorf("request %d: allowed %v", i, w.checks[0].allowed)
				}
			}
			if t.Failed() {
				t.Fatalf("cut at %d and %d", first, second)
			}
		}
	}
}

func TestRepliesByteByByte(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	for round := range int64(3) {
		a, b := r.request("a").flush(), r.request("b", "c").flush()
		for _, reply := range []int64{10, 20, 30} {
			for _, octet := range decision(round+reply, true) {
				r.receive(string(octet))
			}
		}
		a.want("at " + fmt.Sprint(round+10))
		b.want("at "+fmt.Sprint(round+20), "at "+fmt.Sprint(round+30))
	}
}

// Each check hears of its own reply, whatever became of the others of its request.
func TestEachCheckOnItsOwn(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	first := r.request("a").flush()
	second := r.request("b", "c").flush()
	third := r.request("d").flush()
	r.pass(60 * ms)
	r.answer("-LOADING x\r\n")
	r.allow(2) // b
	r.answer("-LOADING x\r\n")
	r.allow(4)
	first.want("expired, error_reply")
	second.want("expired, at 2", "expired, error_reply")
	third.want("expired, at 4")
	r.wantInFlight(0)
}

// A request may give back what one check has charged when it hears that another
// rejects it.
func TestRefundInDecided(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	w := r.request("a", "b", "c").flush()
	w.onCall = func(index int) {
		switch index {
		case 1:
			r.conn.Refund(w.charged(0), r.now)
		case 2:
			r.conn.Refund(w.charged(2), r.now)
		}
	}
	other := r.request("d").flush()
	r.allow(1)
	r.answer(decision(2, false))
	r.allow(3)
	r.allow(4)
	other.want("at 4")
	r.wantRefund("a", 1)
	r.wantRefund("c", 3)
	if len(r.commands) > 0 || r.counted[metric.ChargeRefunded] != 2 {
		t.Errorf("%d refunds, then %v", r.counted[metric.ChargeRefunded], r.commands)
	}
}

// max_pending bounds the requests that have commands in the pipe, whether they
// still wait or not, and so the memory.
func TestMaxPending(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.MaxPending = 100
	options.Breaker.Failures = 1000
	r := newRig(t, options)
	for i := range 10_000 {
		w := r.request("a", "b").flush()
		if want := i >= 100; (w.refused == Overload) != want {
			t.Fatalf("request %d: refused %v", i, w.refused)
		}
	}
	r.pass(60 * ms) // they have expired, and count all the same
	r.request("d").flush().wantRefused(Overload)
	if got := r.failed[Overload]; got != 9_901 {
		t.Errorf("%d counted as overload, want 9901", got)
	}
	if n := len(r.conn.link.pipe.commands.cells); n != 256 {
		t.Errorf("the ring has %d entries, want the power of two above 200", n)
	}
	r.wantState(Closed)
	r.allow(1)
	if w := r.request("c").flush(); w.refused != Overload {
		t.Errorf("half of a request was answered, and another was let in: %v", w.refused)
	}
	r.allow(2)
	if w := r.request("c").flush(); w.refused != NoCause {
		t.Errorf("a request was answered, and the next is refused: %v", w.refused)
	}
}

// Who comes while as many wait as there is room for is kept back, unless Redis is silent, or is
// not asked at all.
func TestCrowded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		maxPending int64
		waiting    int
		most       int64
		after      func(r *rig)
		want       bool
	}{
		{name: "none waits", waiting: 0, most: 0},
		{name: "few wait", waiting: 4, most: 5},
		{name: "many wait", waiting: 5, most: 5, want: true},
		{name: "as many as may", maxPending: 3, waiting: 3, most: 5, want: true},
		{name: "for long", waiting: 5, most: 5, after: func(r *rig) { r.pass(900 * ms) }, want: true},
		{name: "the worker stands still", waiting: 5, most: 5, after: func(r *rig) { r.now += 5000 * ms }, want: true},
		{name: "Redis is silent", waiting: 5, most: 5, after: func(r *rig) { r.pass(1000 * ms) }},
		{name: "one is answered", waiting: 5, most: 5, after: func(r *rig) { r.allow(1) }},
		{name: "the connection is lost", waiting: 5, most: 5, after: func(r *rig) { r.conn.Closed(r.now) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			options := testOptions()
			options.TimeoutMicros = 2000 * ms
			if tt.maxPending > 0 {
				options.MaxPending = tt.maxPending
			}
			r := newRig(t, options)
			for range tt.waiting {
				r.request("a").flush()
			}
			if tt.after != nil {
				tt.after(r)
			}
			if got := r.conn.Crowded(tt.most, r.now); got != tt.want {
				t.Errorf("crowded: %v, want %v", got, tt.want)
			}
		})
	}
}

// A request without checks sends nothing and counts nowhere.
func TestFlushNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.request().flush()
	r.wantInFlight(0)
	if len(r.commands) > 0 {
		t.Errorf("sent %v", r.commands)
	}
}

// Positions go on through all sizes of the ring, and commands keep their tags.
func TestPipelineGrowth(t *testing.T) {
	t.Parallel()
	var p pipeline
	s := testScript(t)
	tag := func(i uint64) string { return fmt.Sprint("tag", i) }
	pushed, popped := uint64(0), uint64(0)
	for step := range 40 {
		for range step {
			p.addCheck(&Check{Script: s, Demand: rule.Demand{Tag: []byte(tag(pushed))}}, 0, nil, 0, 0, 0)
			pushed++
		}
		for range step * 3 / 4 {
			if got := string(p.commands.pop().Tag); got != tag(popped) {
				t.Fatalf("popped %s, want %s", got, tag(popped))
			}
			popped++
		}
	}
	if want := int(pushed - popped); p.commands.len() != want || len(p.commands.cells) > 2*want {
		t.Errorf("%d commands in a ring of %d, want %d", p.commands.len(), len(p.commands.cells), want)
	}
}
