package redis

import (
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/metric"
)

// check holds all that must be true between two steps.
func (m *model) check() {
	m.newStream()
	c := m.conn
	testenv.Same(m.t, "that the connection has its stream open", c.link.stream.open, m.open)
	testenv.Same(m.t, "that it defers", c.link.stream.deferring, false)
	kept := len(parseCommands(m.t, string(c.link.pipe.out)))
	if !c.link.stream.unproven {
		testenv.Same(m.t, "the number of commands to send", kept, 0)
	}
	m.checkPipe()
	sent, lost := m.counted[metric.SettlementSent], m.counted[metric.SettlementLost]
	if under := m.settled - sent - lost; under != c.outbox.settling || under > c.options.MaxPending {
		m.t.Errorf("%d settlements: %d sent, %d lost, %d under way", m.settled, sent, lost, c.outbox.settling)
	}
	switch {
	case !m.open:
		testenv.Same(m.t, "entries that wait for a stream that is gone", c.link.pipe.commands.len(), 0)
	case !m.garbled:
		testenv.Same(m.t, "entries in the pipe", c.link.pipe.commands.len(),
			len(m.commands)+len(m.replies)+kept)
	}
	for i := range c.outbox.queues {
		q, size := &c.outbox.queues[i], int64(0)
		for j := q.first; j < q.next; j++ {
			size += q.at(j).size()
		}
		if q.size != size {
			m.t.Errorf("%d charges wait in a queue, which counts %d", size, q.size)
		}
	}
	m.checkClients()
	m.checkStates()
}

// checkPipe counts what is in the pipe: at most one probe, and of each request as
// many checks as it is said to have.
func (m *model) checkPipe() {
	c := m.conn
	probes, checks := 0, map[uint64]int{}
	for i := c.link.pipe.commands.first; i < c.link.pipe.commands.next; i++ {
		switch e := c.link.pipe.commands.at(i); e.kind {
		case probing:
			probes++
		case checking:
			checks[e.question]++
		}
	}
	if (probes == 1) != (c.State() == HalfOpen) || probes > 1 {
		m.t.Errorf("%d probes in state %d", probes, c.State())
	}
	for i := c.requests.asked.first; i < c.requests.asked.next; i++ {
		if q := c.requests.asked.at(i); q.commands != checks[i] {
			m.t.Errorf("request %d has %d checks in the pipe, and counts %d", i, checks[i], q.commands)
		}
		if q := c.requests.asked.at(i); i == c.requests.asked.first && q.commands == 0 {
			m.t.Errorf("request %d is over, and still kept", i)
		}
	}
	if n := int64(len(checks)); c.InFlight() != n || n > c.options.MaxPending {
		m.t.Errorf("%d requests in flight, %d in the pipe", c.InFlight(), n)
	}
}

func (m *model) checkClients() {
	waiting := m.clients[:0]
	for _, w := range m.clients {
		for i, h := range w.checks {
			if h.at != 0 && h.at != w.ids[i] {
				m.t.Errorf("check %d got the reply of check %d", w.ids[i], h.at)
			}
		}
		if w.left() > 0 {
			waiting = append(waiting, w)
			if !m.open {
				m.t.Errorf("request %v waits, and there is no stream", w.tags)
			}
		}
	}
	m.clients = waiting
}

// breakerSteps are the states that may follow each.
var breakerSteps = map[BreakerState][]BreakerState{
	Closed:   {Open},
	HalfOpen: {Closed, Open},
	Open:     {HalfOpen},
}

// checkStates follows the breaker from state to state, and its lines in the log.
func (m *model) checkStates() {
	before := Closed
	if m.states > 0 {
		before = m.rig.states[m.states-1]
	}
	for _, state := range m.rig.states[m.states:] {
		if !slices.Contains(breakerSteps[before], state) {
			m.t.Errorf("the breaker went from %d to %d", before, state)
		}
		before = state
	}
	m.states = len(m.rig.states)
	if before != m.conn.State() {
		m.t.Errorf("the last state told is %d, it is %d", before, m.conn.State())
	}
	counts := map[BreakerState]int{}
	for _, state := range m.rig.states {
		counts[state]++
	}
	back, warned := 0, 0
	for _, line := range m.lines {
		switch {
		case strings.HasPrefix(line, "redis is back"):
			back++
		case strings.HasPrefix(line, "redis does not decide"):
			warned++
		}
	}
	testenv.Same(m.t, "lines that redis is back", back, counts[Closed])
	testenv.Within(m.t, "lines that it does not decide", warned, counts[Open]-counts[HalfOpen]+back, counts[Open])
}

// finish lets Redis recover: all that waits ends, and a new request is decided.
func (m *model) finish() {
	m.openErr, m.sendErr, m.closeInOpen, m.closeInSend = nil, nil, false, false
	for round := 0; ; round++ {
		w := m.send(1, false)
		for len(m.commands)+len(m.wire) > 0 && !m.garbled {
			m.reply(true)
			m.deliver(len(m.wire))
		}
		m.check()
		if decided := w != nil && w.checks[0].at != 0; decided && m.rests() {
			break
		}
		if round > 5_000 { // the longest pause, by the finest tick
			m.t.Fatalf("does not recover: state %d, log %q", m.conn.State(), m.lines)
		}
		m.pass(minTickMicros)
	}
	m.check()
	testenv.Same(m.t, "requests that wait at the end", len(m.clients), 0)
	testenv.Same(m.t, "entries in the pipe at the end", m.conn.link.pipe.commands.len(), 0)
	testenv.Same(m.t, "the breaker at the end", m.conn.State(), Closed)
	m.wantInFlight(0)
	if strings.Contains(strings.Join(m.lines, "\n"), "s3cr3t") {
		m.t.Error("the password is in the log")
	}
}

// rests reports whether Redis decides and nothing is left to be done.
func (m *model) rests() bool {
	return len(m.clients) == 0 && m.conn.outbox.settling == 0 && m.conn.State() == Closed
}
