package redis

import (
	"strconv"
	"strings"
)

// check holds all that must be true between two steps.
func (m *model) check() {
	m.newStream()
	c := m.conn
	if c.link.stream.open != m.open || c.link.stream.deferring || len(c.link.pipe.out) > 0 {
		m.t.Errorf("open %v, the stream is %v; deferring %v, %d bytes to send", c.link.stream.open, m.open,
			c.link.stream.deferring, len(c.link.pipe.out))
	}
	m.checkPipe()
	sent, lost := c.Counts().SettlementsSent, c.Counts().SettlementsLost
	if under := m.settled - sent - lost; under != c.outbox.settling || under > c.options.MaxPending {
		m.t.Errorf("%d settlements: %d sent, %d lost, %d under way", m.settled, sent, lost, c.outbox.settling)
	}
	if want := len(m.commands) + len(m.replies); m.open && !m.garbled && c.link.pipe.commands.len() != want {
		m.t.Errorf("%d entries in the pipe, %d commands without a reply", c.link.pipe.commands.len(), want)
	}
	if !m.open && c.link.pipe.commands.len() > 0 {
		m.t.Errorf("%d entries wait for a stream that is gone", c.link.pipe.commands.len())
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

// checkStates follows the breaker from state to state, and its lines in the log.
func (m *model) checkStates() {
	before := Closed
	if m.states > 0 {
		before = m.rig.states[m.states-1]
	}
	for _, state := range m.rig.states[m.states:] {
		if allowed := map[BreakerState]string{Closed: "2", HalfOpen: "02", Open: "1"}[before]; !strings.Contains(allowed,
			strconv.Itoa(int(state))) {
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
	if back != counts[Closed] || warned > counts[Open] || warned < counts[Open]-counts[HalfOpen]+back {
		m.t.Errorf("states %v, logged %q", m.rig.states, m.lines)
	}
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
		if w != nil && w.checks[0].at != 0 && len(m.clients) == 0 && m.conn.outbox.settling == 0 && m.conn.State() == Closed {
			break
		}
		if round > 5_000 { // the longest pause, by the finest tick
			m.t.Fatalf("does not recover: state %d, log %q", m.conn.State(), m.lines)
		}
		m.pass(minTickMicros)
	}
	m.check()
	if len(m.clients) > 0 || m.conn.link.pipe.commands.len() > 0 || m.conn.State() != Closed {
		m.t.Errorf("%d requests wait, %d entries, state %d", len(m.clients), m.conn.link.pipe.commands.len(), m.conn.State())
	}
	m.wantInFlight(0)
	if strings.Contains(strings.Join(m.lines, "\n"), "s3cr3t") {
		m.t.Error("the password is in the log")
	}
}
