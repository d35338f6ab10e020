package decide

import "github.com/sluiceproxy/sluice/plugin/rule"

// The events of a Worker other than requests: bytes from Redis, the end of a stream, ticks, and
// its own end. The first and the third let paused requests go on.

// Received takes bytes from Redis, and lets the requests go on that they decide.
func (w *Worker) Received(b []byte, now Time) {
	w.conn.Received(b, now.SteadyMicros)
	w.goOn(now)
	w.wake(now)
}

// Closed notes that the stream to Redis has ended. It may be called within a request's
// callback, so that nothing goes on before the next tick: a request that is resumed before
// Envoy has learnt that it is paused hangs for ever.
func (w *Worker) Closed(now Time) {
	w.conn.Closed(now.SteadyMicros)
	w.wake(now)
}

// ReceivedBeside takes bytes from the second stream of a rotation.
func (w *Worker) ReceivedBeside(b []byte, now Time) {
	w.conn.ReceivedBeside(b, now.SteadyMicros)
	w.goOn(now)
	w.wake(now)
}

// ClosedBeside notes that that one has ended, as Closed does.
func (w *Worker) ClosedBeside(now Time) {
	w.conn.ClosedBeside(now.SteadyMicros)
	w.wake(now)
}

// Tick passes time to what waits for it. It reports whether the configuration, which was to
// end, has ended. The host goes on ticking as NextMicros says.
func (w *Worker) Tick(now Time) (ended bool) {
	if w.conn != nil {
		w.conn.Tick(now.SteadyMicros)
		w.crowd.expire(now)
	}
	w.stores.Tick(now)
	w.EndRedirected(now)
	w.goOn(now)
	return w.conn != nil && w.closing.over(w.conn.Idle(), now.SteadyMicros)
}

// These bound what one callback does.
const (
	// maxExits is how many paused requests go on or are answered. Envoy does that when the
	// callback has returned, each inside the one before if it answers at once, and a few
	// hundred exhaust the stack: the VM dies.
	//
	// Bound: paused requests that one callback lets go. Beyond it, the next callback goes on.
	// Protects Envoy's stack.
	maxExits = 50
	// maxConclusions is how many get their verdict: it takes some milliseconds.
	//
	// Bound: verdicts of one callback. Beyond it, the next callback goes on. Protects the worker
	// from standing still.
	maxConclusions = 512
)

// goOn takes up the paused requests that wait for nothing any more: first those that have
// their verdict, in the order of their answers, then those whose turn in a queue has come.
func (w *Worker) goOn(now Time) {
	w.concludeReady(now)
	if w.crowd.on {
		w.crowd.ask(now)
		w.concludeReady(now)
	}
	for range maxExits {
		if q := w.questions.ready.pop(); q != nil {
			w.step(q, q.verdict.Event, nil, now)
		} else if q := w.queue.next(now.SteadyMicros); q != nil {
			w.step(q, q.atItsTurn(), nil, now)
		} else {
			return
		}
	}
}

// concludeReady finds the verdict on those that wait for no answer any more.
func (w *Worker) concludeReady(now Time) {
	for range maxConclusions {
		q := w.questions.ready.nextUndecided()
		if q == nil {
			return
		}
		w.conclude(q, now)
	}
}

// NextMicros is how long until something waits for a tick, at least 1; 0 if nothing does.
func (w *Worker) NextMicros(nowMicros int64) int64 {
	if w.questions.ready.first != nil || w.crowd.mayGoOn(nowMicros) {
		return 1
	}
	next := Sooner(w.queue.nextMicros(nowMicros), w.stores.nextMicros(nowMicros))
	if w.conn != nil {
		next = Sooner(next, w.conn.NextTickMicros(nowMicros))
	}
	return Sooner(next, Sooner(w.closing.nextMicros(), w.passes.nextMicros()))
}

// Sooner is the shorter of two times; 0 means never.
func Sooner(a, b int64) int64 {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// Queued is how many requests wait for their turn.
func (w *Worker) Queued() int { return len(w.queue.heap) }

// InFlight is how many requests hold slots of a list of limits.
func (w *Worker) InFlight(set rule.LimitSetID) int64 { return w.stores.slots.book.InFlight(set) }

// GuessesTime reports whether a calendar's windows depend on the wall clock: Redis has never
// told its time.
func (w *Worker) GuessesTime() bool { return w.stores.GuessesTime() }
