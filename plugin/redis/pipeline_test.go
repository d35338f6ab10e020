package redis

import (
	"fmt"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// However the bytes of many replies are cut, each goes to its request.
func TestRepliesSplitAndMerged(t *testing.T) {
	t.Parallel()
	const replies = 3
	size := replies * len(decision(1, true))
	for first := range size + 1 {
		for second := range size + 1 - first {
			r := newRig(t, "")
			r.do("ask 1; ask 2 3; wire good; wire good; wire good")
			r.do(fmt.Sprintf("deliver %d; deliver %d; deliver %d", first, second, size-first-second))
			testenv.Same(t, "requests that wait", len(r.clients), 0) // the time of each decision is its number
			if t.Failed() {
				t.Fatalf("cut after %d and %d bytes", first, second)
			}
		}
	}
}

// Positions go on through all sizes of the ring, and commands keep their tags.
func TestPipelineGrowth(t *testing.T) {
	t.Parallel()
	c := newRig(t, "").conn
	p, s := &c.link.pipe, newScript(t, "plain")
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

// The sizes with which a check was remade are the Waiter's: those of commands are copies.
func TestSizesAreCopied(t *testing.T) {
	t.Parallel()
	r := newRig(t, "")
	w := r.ask("a", "+sizes")
	r.do("say *1 77")
	w.sizes[0].Burst = 1
	for range minRing {
		r.conn.Begin(r.now)
		r.conn.Add(w, 0, Check{Script: r.script, Cost: 1, Demand: rule.Demand{Sizes: []algo.Size{{Units: 5, Burst: 5}}}})
	}
	testenv.Same(t, "the Waiter's burst", w.sizes[0].Burst, 1)
}

// Where very many requests end at once, an identity's slots are given back together, and no callback
// sends more than a portion.
func TestManyReleases(t *testing.T) {
	t.Parallel()
	const held = 2000
	for identities, commands := range map[int]int{1: 1, held: releasePortion} {
		r := newRig(t, "script=slots")
		r.do(fmt.Sprintf("ask r|b; say slots; release r|0 %d:2; say :0; ask r|b", held))
		for n := range held {
			r.do(fmt.Sprintf("release r|%d %d:2", n%identities, n))
		}
		r.do("say slots")
		testenv.Same(t, "commands that were sent at once", len(r.commands), commands)
		given := map[string]bool{}
		for len(r.commands) > 0 {
			c := r.commands[0]
			r.say(":0\r\n")
			for i := 4; i < len(c); i += 2 {
				given[c[3]+" "+c[i]] = true
			}
		}
		testenv.Same(t, "requests whose slots were given back", len(given), held)
		testenv.Same(t, "that it is idle", r.conn.Idle(), true)
	}
}

// One byte of a reply that is another one does no harm, wherever it is.
func TestMalformedAtEveryPosition(t *testing.T) {
	t.Parallel()
	good := decision(1234, true)
	for at := range len(good) {
		for _, octet := range []byte("\x00\r\n-+:$*_9\xff") {
			bytes := []byte(good)
			bytes[at] = octet
			r := newRig(t, "")
			r.do("ask a; ask b")
			r.do(fmt.Sprintf("hear %q; pass 150ms", string(bytes)+good)) // which may wait for more bytes
			if len(r.clients) > 0 || r.conn.InFlight() > 0 {
				t.Errorf("%q: %s", bytes, r.standing())
			}
		}
	}
}
