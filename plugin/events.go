package main

import "github.com/sluiceproxy/sluice/plugin/decide"

// The events of a limiter other than requests: bytes from Redis, the end of a stream, ticks, and
// its own end.

// streaming is the limiter that a stream of a configuration belongs to; nil if there is none.
func (v *vm) streaming(contextID uint32) *limiter {
	v.host.running(contextID)
	if p := v.plugins[contextID]; p != nil && p.limiter != nil && p.limiter.stream != nil {
		return p.limiter
	}
	return nil
}

// received takes bytes from Redis. Most of them let paused requests go on: decide/worker.go.
func (l *limiter) received(token uint32, b []byte) {
	switch {
	case l.stream.one.is(token):
		l.worker.Received(b, l.now())
	case l.stream.beside.is(token):
		l.worker.ReceivedBeside(b, l.now())
	}
}

// closed notes that a stream has ended, perhaps within a request's callback.
func (l *limiter) closed(token, status uint32) {
	switch l.stream.ended(token, status) {
	case &l.stream.one:
		l.worker.Closed(l.now())
	case &l.stream.beside:
		l.worker.ClosedBeside(l.now())
	}
}

// tick passes time to what waits for it. It reports whether the configuration, which was to end, has
// ended.
func (l *limiter) tick() (ended bool) {
	now := l.now()
	l.timer.ticked(now.SteadyMicros)
	ended = l.worker.Tick(now)
	if l.stream != nil {
		l.stream.reap()
	}
	l.offenders.report(l.metrics, now.SteadyMicros)
	l.metrics.observe(l)
	if l.metrics.batch.Due(now.SteadyMicros) {
		l.metrics.batch.Flush()
	}
	if ended {
		l.letGo()
		l.timer.set(0, now.SteadyMicros)
	} else {
		l.timer.set(l.nextMicros(now.SteadyMicros), now.SteadyMicros)
	}
	return ended
}

// close ends the configuration. It reports whether it has; otherwise a tick will.
func (l *limiter) close() bool {
	ended := l.worker.Close(l.now())
	if ended {
		l.letGo()
	}
	return ended
}

// letGo lets go of what the configuration has opened.
func (l *limiter) letGo() {
	if l.stream != nil {
		l.stream.CloseStream()
		l.stream.SwapStreams()
		l.stream.CloseStream()
		l.stream.reap()
	}
	l.exprs.removeAll()
	l.metrics.observe(l)
	l.metrics.batch.Close()
}

// wake makes the timer tick in time for what waits next.
func (l *limiter) wake(now decide.Time) {
	l.timer.tickWithin(l.nextMicros(now.SteadyMicros), now.SteadyMicros)
}

// nextMicros is how long until something waits for a tick; 0 if nothing does.
func (l *limiter) nextMicros(nowMicros int64) int64 {
	return decide.Sooner(l.worker.NextMicros(nowMicros), l.ownNextMicros(nowMicros))
}

// ownNextMicros is how long until something other than a request does.
func (l *limiter) ownNextMicros(nowMicros int64) int64 {
	next := decide.Sooner(l.metrics.batch.NextMicros(nowMicros), l.offenders.nextMicros(nowMicros))
	if l.stream != nil && l.stream.mustReap() {
		next = 1
	}
	return next
}
