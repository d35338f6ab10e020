package main

import "github.com/sluiceproxy/sluice/plugin/decide"

// What comes to a limiter beside requests: bytes from Redis, the end of a stream, ticks,
// and its own end. Most of it lets paused requests go on, by the path in request.go.

// received takes bytes from Redis, and concludes what they decide.
func (l *limiter) received(token uint32, b []byte) {
	if !l.stream.is(token) {
		return
	}
	now := l.now()
	l.conn.Received(b, now.SteadyMicros)
	l.goOn(now)
	l.wake(now)
}

// closed notes that a stream has ended. It may be called within a request's
// callback, so that nothing is concluded before the next tick: a request that is
// resumed before Envoy has learnt that it is paused hangs for ever.
func (l *limiter) closed(token uint32) {
	if !l.stream.ended(token) {
		return
	}
	now := l.now()
	l.conn.Closed(now.SteadyMicros)
	l.wake(now)
}

// tick passes time to what waits for it. It reports whether the configuration, which
// was to end, has ended.
func (l *limiter) tick() (ended bool) {
	now := l.now()
	l.timer.ticked(now.SteadyMicros)
	if l.conn != nil {
		l.conn.Tick(now.SteadyMicros)
		l.stream.reap()
		l.stream.trial.tick(now.SteadyMicros)
	}
	l.stores.Tick(now)
	l.endRedirected()
	l.goOn(now)
	l.offenders.report(l.metrics, now.SteadyMicros)
	l.metrics.tick(l.sources(), now.SteadyMicros)
	l.timer.set(l.nextMicros(now.SteadyMicros), now.SteadyMicros)
	return l.finish(now)
}

// maxConclusions bounds how many paused requests one callback lets go on or
// answers. Envoy does that when the callback has returned, each inside the one
// before if it answers at once, and a few hundred exhaust the stack: the VM dies.
const maxConclusions = 50

// goOn takes up the paused requests that wait for nothing any more.
func (l *limiter) goOn(now decide.Time) {
	for range maxConclusions {
		q, event := l.stores.Next(now)
		switch {
		case q == nil:
			return
		case event == decide.TurnComes:
			l.carryOut(q.Step(decide.TurnComes), q, decide.Verdict{}, now)
		default:
			l.conclude(q, now)
		}
	}
}

// maxClosingMicros is how long a configuration that ends is kept at most until what it
// gives back has reached Redis.
const maxClosingMicros = 1_000_000

// close ends the configuration. It reports whether it has; otherwise a tick will.
func (l *limiter) close() bool {
	l.endRedirected() // its next pass is on the configuration that follows
	now := l.now()
	l.stores.Close(now)
	l.closingMicros = now.SteadyMicros + maxClosingMicros
	if l.conn != nil {
		l.conn.SendSettlements(now.SteadyMicros)
	}
	if l.conn == nil || l.conn.Idle() {
		l.letGo()
		return true
	}
	l.wake(now)
	return false
}

// finish ends a configuration that is to end, when nothing is left in the pipe. It
// reports whether it has.
func (l *limiter) finish(now decide.Time) bool {
	if l.closingMicros == 0 || !l.conn.Idle() && now.SteadyMicros < l.closingMicros {
		return false
	}
	l.letGo()
	return true
}

// letGo lets go of what the configuration has opened.
func (l *limiter) letGo() {
	if l.stream != nil {
		l.stream.CloseStream()
		l.stream.reap()
	}
	l.exprs.removeAll()
	l.metrics.close(l.sources())
}

// sources is what the metrics look at.
func (l *limiter) sources() sources {
	return sources{stores: l.stores, embedded: l.embedded, conn: l.conn}
}
