package redis

import (
	"slices"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/plugin/metric"
)

// check holds all that must be true between two steps.
func (r *rig) check() {
	c, s, p := r.conn, &r.conn.link.stream, &r.conn.link.pipe
	testenv.Same(r.t, "that the connection has its stream open", s.open, r.open)
	testenv.Same(r.t, "that it defers", s.deferring, false)
	testenv.Same(r.t, "the breaker, as it was told", r.state, c.State())
	kept := 0
	if s.unproven {
		commands, err := twinredis.Commands[string](p.out)
		testenv.OK(r.t, err)
		kept = len(commands)
	} else {
		testenv.Same(r.t, "bytes to send", len(p.out), 0)
	}
	if !r.open {
		kept = 0
	}
	if !r.garbled {
		testenv.Same(r.t, "entries in the pipe", p.commands.len(), len(r.commands)+len(r.wire)+kept)
	}

	// The pipe has at most one probe, and of each request as many checks as it is said to have. Some may
	// be on the stream that was in use before.
	probes, checks := 0, map[uint64]int{}
	for j, p := range []*pipeline{p, &c.link.rotation.pipe} {
		for i := p.commands.first; i < p.commands.next; i++ {
			switch e := p.commands.at(i); {
			case e.kind == checking:
				checks[e.question]++
			case e.kind == probing && j == 0: // the other is a candidate's
				probes++
			}
		}
	}
	testenv.Same(r.t, "the breaker's probes", probes, map[BreakerState]int{HalfOpen: 1}[c.State()])
	for i := c.requests.asked.first; i < c.requests.asked.next; i++ {
		n := c.requests.asked.at(i).commands
		testenv.Same(r.t, "the checks of a request", n, checks[i])
		if over := i == c.requests.asked.first && n == 0; over {
			r.t.Errorf("request %d is over, and still kept", i)
		}
	}
	testenv.Same(r.t, "requests in flight", c.InFlight(), int64(len(checks)))
	testenv.Within(r.t, "requests in flight", c.InFlight(), 0, c.options.MaxPending)

	sent, lost := r.counted[metric.SettlementSent], r.counted[metric.SettlementLost]
	testenv.Same(r.t, "settlements under way", c.outbox.settling, r.settling-sent-lost)
	testenv.Within(r.t, "settlements under way", c.outbox.settling, 0, c.options.MaxPending)
	for i := range c.outbox.queues {
		q, size := &c.outbox.queues[i], int64(0)
		for j := q.first; j < q.next; j++ {
			size += q.at(j).size()
		}
		testenv.Same(r.t, "charges in a queue", size, q.size)
	}

	r.clients = slices.DeleteFunc(r.clients, func(w *client) bool {
		age := r.now - w.sentAt + w.kept
		late := r.ticked == r.now && age >= c.options.TimeoutMicros+r.stalled
		if late && slices.Contains(w.heard, "") {
			r.t.Errorf("%v: %q after %d us", w.tags, w.heard, age)
		}
		waits := slices.ContainsFunc(w.heard, func(h string) bool { return !over(h) })
		if connected := r.open || r.beside.open; waits && !connected && r.redis == nil {
			r.t.Errorf("%v: %q, and there is no stream", w.tags, w.heard)
		}
		return !waits
	})
}
