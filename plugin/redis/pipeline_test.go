package redis

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

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

// Positions go on through all sizes of the ring, and commands keep their tags.
func TestPipelineGrowth(t *testing.T) {
	t.Parallel()
	c := New(&nullHost{}, &nullHost{}, testOptions())
	p, s := &c.link.pipe, testScript(t)
	tag := func(i uint64) string { return fmt.Sprint("tag", i) }
	pushed, popped := uint64(0), uint64(0)
	for step := range 40 {
		for range step {
			c.Add(nil, 0, Check{Script: s, Demand: rule.Demand{Tag: []byte(tag(pushed))}})
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
		if got := r.answer(":1\r\n"); got[3] != "rl:{r}:gcra:1s" {
			t.Errorf("sent %q, want a refund", got)
		}
	}
	r.wantInFlight(0)
}

// The sizes with which a check was remade are the Waiter's: those of commands are copies.
func TestSizesAreCopied(t *testing.T) {
	t.Parallel()
	r := newRig(t, testOptions())
	w := r.resizable("a").flush()
	r.answer(otherTime(77))
	w.sizes[0].Burst = 1
	for range minRing {
		r.conn.Begin(r.now)
		r.conn.Add(r.request("c"), 0,
			Check{Script: r.script, Cost: 1, Demand: rule.Demand{Tag: []byte("c"), Sizes: []algo.Size{{Units: 5, Burst: 5}}}})
	}
	testenv.Same(t, "the Waiter's burst", w.sizes[0].Burst, 1)
}

// Where very many requests end at once, an identity's slots are given back together, and no callback
// sends more than a portion.
func TestManyReleases(t *testing.T) {
	t.Parallel()
	const held = 2000
	for identities, commands := range map[int]int{1: 1, held: releasePortion} {
		r := newRig(t, testOptions())
		r.script = slotScript(t)
		r.request("r|b").flush()
		r.answer(slotsAllowed)
		r.conn.Release(r.script, []byte("r|0"), Slots{held, 2}, r.now)
		r.answer(":0\r\n")
		r.request("r|b").flush()
		for n := range held {
			r.conn.Release(r.script, fmt.Appendf(nil, "r|%d", n%identities), Slots{int64(n), 2}, r.now)
		}
		r.answer(slotsAllowed)
		testenv.Same(t, "commands that were sent at once", len(r.commands), commands)
		given := map[string]bool{}
		for len(r.commands) > 0 {
			c := r.answer(":0\r\n")
			for i := 4; i < len(c); i += 2 {
				given[c[3]+" "+c[i]] = true
			}
		}
		testenv.Same(t, "requests whose slots were given back", len(given), held)
		testenv.Same(t, "that it is idle", r.conn.Idle(), true)
	}
}
