package redis

import "github.com/sluiceproxy/sluice/redisresp"

// rotation replaces streams that work by new ones, as they grow old: a stream through a
// relay would otherwise stay where it is for ever, and a relay that is added later get none.
//
// The new stream first carries a probe. Once Redis has answered that, the new stream carries all
// commands, and the old one stays open until its last reply has come. So a rotation leaves no
// check undecided, wherever the new stream leads.
type rotation struct {
	maxAgeMicros int64 // 0: streams live for ever
	role         role
	inside       bool // the other stream is the one that is being worked on, see link.swap
	untilMicros  int64

	stream stream // the other one, not in use
	pipe   pipeline
}

// role is the purpose of the second stream.
type role uint8

const (
	absent    role = iota
	candidate      // it has yet to answer its probe
	chosen         // it has, and is put into use in a moment
	retired        // it brings what it still owes
)

const (
	// Bound: us that a new stream has to answer. Beyond it, the old stream stays. Protects requests
	// from a stream that leads nowhere.
	candidateMicros = 5_000_000
	// Bound: us from a failed rotation to the next. Below it, the old stream stays. Protects relays
	// from connections in vain.
	rotateAgainMicros = 10_000_000
)

// swap goes on with the other stream. The two change places, because a pointer to the one in use would
// cost 14 KB of code.
func (l *link) swap() {
	r := &l.rotation
	r.inside = !r.inside
	l.stream, r.stream = r.stream, l.stream
	l.pipe, r.pipe = r.pipe, l.pipe
	l.pipe.byKey = l.pipe.byKey || r.pipe.byKey
	l.health.host.SwapStreams()
}

// beside works on the stream next to the one in use.
func (l *link) beside(work func()) {
	l.swap()
	work()
	l.swap()
	if l.rotation.role == chosen && !l.rotation.inside {
		l.rotation.pipe.listening = l.pipe.listening // requests that are kept back go on waiting
		l.swap()
		l.rotation.inside = false
		l.rotation.role = retired
		l.stream.usedMicros = l.rotation.stream.usedMicros // a probe is no use
	}
}

func (l *link) onCandidate() bool { return l.rotation.inside && l.rotation.role == candidate }

// rotate begins a rotation that is due, and goes on with one.
func (l *link) rotate(nowMicros int64) {
	r, s := &l.rotation, &l.stream
	switch {
	case r.role == candidate && nowMicros >= r.untilMicros:
		l.beside(func() { l.hangUp(ended{cause: Timeout}, nowMicros) })
	case r.role == retired: // it ends once it owes nothing
		l.beside(func() {
			l.pipe.listening.tick(nowMicros)
			l.stream.deferring = true
			l.expire(nowMicros)
			l.transmitDeferred(nowMicros)
			if l.stream.open && l.pipe.commands.len() == 0 {
				l.stream.open = false
				l.stream.host.CloseStream()
			}
			if !l.stream.open {
				l.rotation.role = absent
			}
		})
	case nowMicros-s.usedMicros >= restMicros: // it rests
	case r.role == absent && s.open && s.heard && nowMicros >= s.dueMicros && l.health.breaker.state == Closed:
		s.dueMicros = nowMicros + rotateAgainMicros // unless this one is replaced
		r.untilMicros = nowMicros + candidateMicros
		r.stream = stream{host: s.host, reopen: s.reopen, number: s.number, decoder: r.stream.decoder, in: r.stream.in[:0]}
		r.pipe.listening.periodMicros = l.pipe.listening.periodMicros
		if r.stream.decoder == nil {
			r.stream.decoder = redisresp.NewDecoder(replyLimits)
		}
		r.role = candidate
		l.beside(func() { // it is asked what the breaker's probe asks
			if _, ok := l.open(nowMicros); !ok {
				l.rotation.role = absent
				return
			}
			l.pipe.setUp(l.options, nowMicros)
			l.pipe.addProbe(probing, l.options.KeyPrefix, nil, nowMicros)
			l.transmit(nowMicros)
		})
	}
}

// Envoy gives a cluster's endpoints streams by turns, so a stream in place of one that was lost may
// lead to the endpoint that has just died. So the new stream is probed: its set-up and one probe go
// first, and what comes meanwhile is kept. If it ends before it has answered anything, nothing that
// was kept is lost, and the next one is probed. What is kept expires as if it had been sent.

// maxTries is how many streams in a row are tried in place of a lost one: two relays, of which one
// is dead, need two, and a rotation that takes a turn one more.
//
// Bound: attempts to replace a lost stream. Beyond it, what was kept fails, and the next attempt
// waits for a pause. Protects requests from waiting in vain.
const maxTries = 3

// greet sends the set-up and the probe.
func (l *link) greet(nowMicros int64) {
	l.stream.usedMicros = nowMicros
	if l.stream.host.Send(l.stream.greeting) != nil {
		l.hangUp(ended{cause: Lost}, nowMicros)
	}
}

// tryNext probes the next stream for what is kept, until one is open.
func (l *link) tryNext(nowMicros int64) {
	for s := &l.stream; s.unproven && !s.open && !s.opening; {
		switch _, ok := l.open(nowMicros); {
		case ok:
			// The oldest command is sent anew, on a stream that has as long to answer.
			p := &l.pipe
			p.commands.at(p.commands.first).listenedMicros = p.listening.at(nowMicros)
			l.greet(nowMicros)
		case nowMicros < s.reopenMicros: // Envoy has no endpoint
			l.lose(ended{cause: Unreachable}, nowMicros)
		}
	}
}
