package redis

import (
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/redisresp"
)

// link is the way to Redis: a stream, the commands that are on it, and whether Redis decides.
type link struct {
	options  *Options
	observer Observer
	stream   stream   // the byte stream: opened, lost, at rest
	pipe     pipeline // commands that were sent, and those that will be in a moment
	health   health   // the breaker, and what the log says
	startup  startupCheck
	rotation rotation
	stats    serverStats
	reply    redisresp.Reply // the last one, good until the next

	requests *requests // those that have checks in the pipe
	outbox   *outbox
}

// ready reports whether a background command could be sent now, on a new stream if need be. None is
// kept for a stream that may lead nowhere: it would be lost with it.
func (l *link) ready(nowMicros int64) bool {
	up := l.health.breaker.state == Closed && (l.stream.open || !l.rotation.inside && l.connect(nowMicros))
	return up && !l.stream.unproven
}

// connect opens a stream and queues its set-up, unless the last attempt failed
// moments ago. One in place of a lost stream is probed first.
func (l *link) connect(nowMicros int64) bool {
	reopened, ok := l.open(nowMicros)
	if !ok {
		return false
	}
	s, p, b := &l.stream, &l.pipe, &l.health.breaker
	p.setUp(l.options, nowMicros)
	if reopened && l.stream.tries > 0 && b.state == Closed {
		// It is asked about the identity that Redis has decided last: if some shards of a cluster are away,
		// the one of that identity most likely answers.
		p.addProbe(probingStream, l.options.KeyPrefix, b.decidedTag, nowMicros)
		s.unproven, s.greeting = true, append(s.greeting[:0], p.out...)
		p.out = p.out[:0]
		l.greet(nowMicros)
	}
	return s.open
}

// open opens a stream, unless the last attempt failed moments ago. reopened says that it is in place
// of one that was lost.
func (l *link) open(nowMicros int64) (reopened, ok bool) {
	s := &l.stream
	if nowMicros < s.reopenMicros {
		return false, false
	}
	must.Hold(!s.open, "a stream is opened in place of one that has ended")
	s.decoder.Reset()
	s.open, s.heard, s.opening = true, false, true // before the call, in which Closed may come
	err := s.host.OpenStream()
	s.opening, l.health.openError = false, err
	if err != nil && s.open {
		s.open = false
		s.backOff(nowMicros)
	}
	if !s.open {
		return false, false
	}
	reopened = s.opened
	s.opened, s.resting, s.another = true, false, s.another || reopened
	s.number++

	// It is replaced after its age or up to a fifth less or more, so that the workers of a mesh do not
	// rotate in step.
	s.dueMicros = noBound
	if age := l.rotation.maxAgeMicros; age > 0 {
		fifth := age / 5
		s.dueMicros = nowMicros + age - fifth + below(s.reopen.random, 2*fifth+1)
	}
	return reopened, true
}

// transmit sends the commands that are encoded, unless the stream has yet to answer its probe.
func (l *link) transmit(nowMicros int64) {
	if l.stream.unproven {
		return
	}
	l.stream.usedMicros = nowMicros
	err := l.stream.host.Send(l.pipe.out)
	l.pipe.out = l.pipe.out[:0]
	if err != nil {
		l.hangUp(ended{cause: Lost}, nowMicros)
	}
}

// transmitDeferred sends what Waiters and replies have caused. No host call,
// which may end the stream, happens while the pipe is walked, and many commands
// leave in one.
func (l *link) transmitDeferred(nowMicros int64) {
	l.stream.deferring = false
	if len(l.pipe.out) > 0 {
		l.transmit(nowMicros)
	}
}

// read takes replies out of the bytes that have come. Each is for the oldest command.
func (l *link) read(b []byte, nowMicros int64) {
	s := &l.stream
	if len(s.in) > 0 {
		s.in = append(s.in, b...)
		b = s.in
	}
	for len(b) > 0 && s.open {
		reply, n, outcome := s.decoder.Decode(b)
		if outcome == redisresp.Malformed || outcome == redisresp.Complete && l.pipe.commands.len() == 0 {
			l.hangUp(ended{cause: Malformed}, nowMicros)
			return
		}
		if outcome == redisresp.Incomplete {
			break
		}
		b = b[n:]
		s.heard, s.tries = true, maxTries
		s.reopen.reset()
		l.reply = reply
		if l.onCandidate() { // an error ends it, and with its last reply it is chosen
			l.pipe.commands.pop()
			if reply.Kind == redisresp.Error {
				l.hangUp(ended{cause: ErrorReply}, nowMicros)
			} else if l.pipe.commands.len() == 0 {
				l.rotation.role = chosen
			}
			continue
		}

		k := l.pipe.commands.pop()
		o := l.requests.replies.outcomeOf(k, reply, nowMicros)
		if o == accepted && k.bySource {
			k.script.known[table[k.kind].form] = s.number
		}
		if o == accepted && s.another && k.kind != loggingIn && k.kind != selecting { // a proxy may answer these
			s.another = false
			l.observer.Reconnected()
		}
		if o == timeless {
			if !l.pipe.byKey {
				l.pipe.byKey = true
				l.health.host.Info(l.health.name() + " does not let scripts call TIME: from now on they tell the time by a key's " +
					"expiry, to the millisecond")
			}
			k.byKey = true
		}
		l.act(k, end{o, causes[o], nowMicros})
	}
	if s.open {
		s.in = append(s.in[:0], b...)
	}
}

// hangUp closes the stream, which is useless now.
func (l *link) hangUp(why ended, nowMicros int64) {
	if l.stream.open {
		l.stream.open = false
		l.stream.host.CloseStream()
		l.end(why, nowMicros)
	}
}

// end fails all that waits for the stream that is gone. However many requests
// that is, it is one failure: a connection that is killed under load says no
// more about Redis than one that is killed while a single request waits, and
// nothing at all if no request waits. If the stream ever delivered a reply, the next
// request opens a new one at once, see second_stream.go. If not, the loss counts as a failed attempt
// to connect.
func (l *link) end(why ended, nowMicros int64) {
	s := &l.stream
	s.open, s.in = false, s.in[:0]
	if l.onCandidate() { // nothing has been asked of it
		l.pipe.commands.first, l.pipe.out = l.pipe.commands.next, l.pipe.out[:0]
		l.rotation.role = absent
		return
	}
	if !s.heard {
		if s.tries = max(s.tries-1, 0); s.tries == 0 {
			s.backOff(nowMicros)
		}
		if why.cause == Lost {
			why.cause = Unreachable
		}
		// Another stream is tried for the commands that were kept, unless they have expired meanwhile.
		b, sent := &l.health.breaker, &l.pipe.commands
		retry := s.unproven && len(l.pipe.out) > 0 && s.tries > 0
		for i := sent.first; i < sent.next && retry; i++ {
			retry = !sent.at(i).expired
		}
		if retry && b.state == Closed && l.requests.waiting > 0 {
			l.health.failed(why.cause, nowMicros)
		}
		if retry && b.state == Closed {
			return
		}
	}
	l.lose(why, nowMicros)
}

// lose fails what waits for a stream, sent or kept.
func (l *link) lose(why ended, nowMicros int64) {
	l.stream.unproven, l.stream.ended = false, why
	l.pipe.out = l.pipe.out[:0]
	for l.pipe.commands.len() > 0 {
		l.act(l.pipe.commands.pop(), end{lost, why.cause, nowMicros})
	}
}

// uselessPauseMicros is how far apart connections are replaced because of an error
// reply to a check. One of several servers behind redis_proxy may answer so for
// long, and each replacement fails what is in flight to the others.
//
// Bound: us between two connections replaced for an error reply. Below it, the connection stays.
// Protects checks in flight to the other servers.
const uselessPauseMicros = 1_000_000

// replaceIfUseless closes the stream after an error reply that another connection
// may not get.
func (l *link) replaceIfUseless(nowMicros int64) {
	s := &l.stream
	if connectionUseless(l.reply.Bytes) && (!s.replaced || nowMicros-s.replacedMicros >= uselessPauseMicros) {
		s.replaced, s.replacedMicros = true, nowMicros
		l.hangUp(ended{ErrorReply, true}, nowMicros)
	}
}

// probe asks whether Redis is back: one command, for which no request waits. A
// stream that owes a reply for longer than the timeout would only show that it
// still does, so it is replaced first, which also reaches a Redis that is back
// soonest. What its commands have charged stands.
//
// It asks the hash slot, in turn, of the tag that was decided last, of the tag that failed last,
// and any other. So one of the next probes finds a shard that answers.
func (l *link) probe(nowMicros int64) {
	if l.stream.unproven || l.pipe.owes(l.options.TimeoutMicros, nowMicros) {
		l.hangUp(ended{cause: Lost}, nowMicros)
	}
	b := &l.health.breaker
	b.state = HalfOpen
	l.observer.BreakerChanged(HalfOpen)
	l.stream.reopenMicros = 0
	if !l.stream.open && !l.connect(nowMicros) {
		l.health.open(Unreachable, nowMicros)
		return
	}
	b.probes++
	var tag []byte
	switch turn := b.probes % 3; {
	case turn == 1 && len(b.decidedTag) > 0:
		tag = b.decidedTag
	case turn > 0 && len(b.failedTag) > 0:
		tag = b.failedTag
	default:
		tag = strconv.AppendUint([]byte("sluice"), b.pauses.random.Uint64(), 36)
	}
	l.pipe.addProbe(probing, l.options.KeyPrefix, tag, nowMicros)
}
