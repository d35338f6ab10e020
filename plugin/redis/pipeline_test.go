package redis

import (
	"fmt"
	"strings"
	"testing"
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
	first.wantDecided(1)
	second.wantDecided(2, 3)
	third.wantDecided(4)
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
				w.wantDecided(int64(i + 1))
				if w.allowed[0] != (i%2 == 0) {
					t.Errorf("request %d: allowed %v", i, w.allowed[0])
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
		a.wantDecided(round + 10)
		b.wantDecided(round+20, round+30)
	}
}

// The replies of requests that are gone are taken out, and answer nobody else.
func TestAbandonedKeepTheOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	first := r.request("a").flush()
	second := r.request("b", "c").flush()
	third := r.request("d").flush()
	fourth := r.request("e").flush()
	first.abandon(false)
	r.allow(1)
	r.allow(2) // b
	second.abandon(false)
	fourth.abandon(false)
	r.allow(3) // c
	r.allow(4)
	r.allow(5)
	third.wantDecided(4)
	if second.decided[0] != 2 || second.decided[1] != 0 {
		t.Errorf("the second request has decisions %v, want one", second.decided)
	}
	r.wantInFlight(0)
	if r.refunded != 0 {
		t.Errorf("%d refunds, and nobody asked for one", r.refunded)
	}
}

// A request may abandon its own other checks, and give charges back, when it
// hears of the first that rejects it.
func TestAbandonInDecided(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	w := r.request("a", "b", "c").flush()
	w.onDecide = func() {
		if w.decided[1] != 0 {
			w.abandon(true)
			r.conn.Refund(r.script, []byte("a"), 1, w.nonces[0], w.decided[0], r.now)
		}
	}
	other := r.request("d").flush()
	r.allow(1)
	r.answer(decision(2, false))
	r.allow(3)
	r.allow(4)
	other.wantDecided(4)
	if got := r.names(); got != "EVAL EVAL" || r.refunded != 2 {
		t.Fatalf("sent %s, %d refunds; want those of a and c", got, r.refunded)
	}
	for i, want := range []string{"rl:{a}:gcra:1s 1", "rl:{c}:gcra:1s 3"} {
		if c := r.commands[i]; c[3]+" "+c[6] != want {
			t.Errorf("refund %d is of %s %s, want %s", i, c[3], c[6], want)
		}
	}
}

// max_pending bounds the requests that have commands in the pipe, whether they
// still wait or not, and so the memory.
func TestMaxPending(t *testing.T) {
	t.Parallel()
	options := testOptions()
	options.MaxPending = 100
	r := newRig(t, options)
	for i := range 10_000 {
		w := r.request("a", "b").flush()
		if want := i >= 100; (w.refused == Overload) != want {
			t.Fatalf("request %d: refused %v", i, w.refused)
		}
		if w.refused == NoCause {
			w.abandon(false)
		}
	}
	if got := r.failed[Overload]; got != 9_900 {
		t.Errorf("%d counted as overload, want 9900", got)
	}
	if n := len(r.conn.pipe.ring); n != 256 {
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

// A request with no checks is none.
func TestFlushNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	r.request().flush()
	r.wantInFlight(0)
	if len(r.commands) > 0 {
		t.Errorf("sent %v", r.commands)
	}
}

// Positions go on through all sizes of the ring, and entries keep their tags.
func TestPipelineGrowth(t *testing.T) {
	t.Parallel()
	var p pipeline
	tag := func(i uint64) string { return fmt.Sprint("tag", i) }
	pushed, popped := uint64(0), uint64(0)
	for step := range 40 {
		for range step {
			p.push(entry{tag: []byte(tag(pushed))})
			pushed++
		}
		for range step * 3 / 4 {
			if got := string(p.pop().tag); got != tag(popped) {
				t.Fatalf("popped %s, want %s", got, tag(popped))
			}
			popped++
		}
	}
	if want := int(pushed - popped); p.len() != want || len(p.ring) > 2*want {
		t.Errorf("%d entries in a ring of %d, want %d", p.len(), len(p.ring), want)
	}
}
