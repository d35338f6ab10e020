package redis

// Envoy gives a cluster's endpoints streams by turns, so a stream in place of one that was lost may
// lead to the endpoint that has just died. It is auditioned: its set-up and one probe go first, and
// what comes meanwhile is kept. If it ends before it has answered anything, nothing that was kept is
// lost, and the next one is auditioned. What is kept expires as if it had been sent.

// maxTries is how many streams in a row are tried in place of a lost one: two relays, of which one
// is dead, need two, and a rotation that takes a turn one more.
//
// Bound: attempts to replace a lost stream. Beyond it, what was kept fails, and the next attempt
// waits for a pause. Protects requests from waiting in vain.
const maxTries = 3

// audition asks a new stream whether Redis answers on it, by the identity that Redis has decided
// last: of a cluster whose shards do not all answer, that one's most likely does.
func (l *link) audition(nowMicros int64) {
	tag := l.health.breaker.decidedTag
	if len(tag) == 0 {
		tag = []byte("sluice")
	}
	s, p := &l.stream, &l.pipe
	p.out = appendProbe(p.out, l.options.KeyPrefix, tag)
	p.addEncoded(auditioning, nowMicros)
	s.unproven, s.greeting = true, append(s.greeting[:0], p.out...)
	p.out = p.out[:0]
	l.greet(nowMicros)
}

// greet sends the set-up and the probe.
func (l *link) greet(nowMicros int64) {
	l.stream.usedMicros = nowMicros
	if l.stream.host.Send(l.stream.greeting) != nil {
		l.hangUp(ended{cause: Lost}, nowMicros)
	}
}

// keeps reports whether what was kept is worth another stream, after one that has answered nothing.
// That is a failure of Redis' if a request waits.
func (l *link) keeps(cause Cause, nowMicros int64) bool {
	h := &l.health
	if !l.stream.unproven || len(l.pipe.out) == 0 || l.stream.tries == 0 || l.pipe.expired() {
		return false
	}
	if h.breaker.state == Closed && l.requests.waiting > 0 {
		h.failed(cause, nowMicros)
	}
	return h.breaker.state == Closed
}

// tryNext auditions the next stream for what is kept, until one is open.
func (l *link) tryNext(nowMicros int64) {
	for s := &l.stream; s.unproven && !s.open && !s.opening; {
		switch _, ok := l.open(nowMicros); {
		case ok:
			l.pipe.restamp(nowMicros)
			l.greet(nowMicros)
		case nowMicros < s.reopenMicros: // Envoy has no endpoint
			l.lose(ended{cause: Unreachable}, nowMicros)
		}
	}
}
