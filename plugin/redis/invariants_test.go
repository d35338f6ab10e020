package redis

import (
	"strconv"
	"strings"
)

func (w *modelClient) waits() bool {
	return !w.gone && len(w.failures) == 0 && w.left() > 0
}

// check holds all that must be true between two steps.
func (m *model) check() {
	m.newStream()
	c := m.conn
	if c.open != m.open || c.deferring || len(c.out) > 0 {
		m.t.Errorf("open %v, the stream is %v; deferring %v, %d bytes to send", c.open, m.open, c.deferring, len(c.out))
	}
	probes, requests := 0, int64(0)
	for i := c.pipe.first; i < c.pipe.next; i++ {
		e := c.pipe.at(i)
		if e.kind == probeEntry {
			probes++
		}
		if e.last {
			requests++
		}
	}
	if (probes == 1) != (c.State() == HalfOpen) || probes > 1 {
		m.t.Errorf("%d probes in state %d", probes, c.State())
	}
	if c.InFlight() != requests || requests > 3*c.options.MaxPending {
		m.t.Errorf("%d requests in flight, %d in the pipe", c.InFlight(), requests)
	}
	if want := len(m.commands) + len(m.replies); m.open && !m.garbled && c.pipe.len() != want {
		m.t.Errorf("%d entries in the pipe, %d commands without a reply", c.pipe.len(), want)
	}
	if !m.open && c.pipe.len() > 0 {
		m.t.Errorf("%d entries wait for a stream that is gone", c.pipe.len())
	}
	m.checkClients()
	m.checkStates()
}

func (m *model) checkClients() {
	waiting := m.clients[:0]
	for _, w := range m.clients {
		for i, at := range w.decided {
			if at != 0 && at != w.ids[i] {
				m.t.Errorf("check %d got the reply of check %d", w.ids[i], at)
			}
		}
		if w.waits() {
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
		if allowed := map[BreakerState]string{Closed: "2", HalfOpen: "02", Open: "1"}[before]; !strings.Contains(allowed, strconv.Itoa(int(state))) {
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
	back := 0
	for _, line := range m.lines {
		if strings.HasPrefix(line, "redis is back") {
			back++
		}
	}
	if warned := len(m.lines) - back; back != counts[Closed] || warned > counts[Open] || warned < counts[Open]-counts[HalfOpen]+back {
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
		if w != nil && len(w.failures) == 0 && w.left() == 0 && m.conn.State() == Closed {
			break
		}
		if round > 5_000 { // the longest pause, by the finest tick
			m.t.Fatalf("does not recover: state %d, log %q", m.conn.State(), m.lines)
		}
		m.tick(max(m.conn.NextTickMicros(m.now), minTickMicros))
	}
	m.check()
	if len(m.clients) > 0 || m.conn.pipe.len() > 0 || m.conn.State() != Closed {
		m.t.Errorf("%d requests wait, %d entries, state %d", len(m.clients), m.conn.pipe.len(), m.conn.State())
	}
	m.wantInFlight(0)
	if strings.Contains(strings.Join(m.lines, "\n"), "s3cr3t") {
		m.t.Error("the password is in the log")
	}
}
