package decide

import "github.com/sluiceproxy/sluice/plugin/must"

// impossible handles an event that the request's state does not have. Tests fail there. In Envoy
// a mistake in Sluice must not leave a request paused for ever, so the failure mode decides the
// request, and the worker logs one line.
//
//go:noinline
func (w *Worker) impossible(q *Question, e Event, now Time) Effect {
	must.Hold(false, "a request that is "+q.state.String()+" never has the event: "+e.String())
	return w.letGo(q, e, now)
}

// letGo ends the wait of a request, if it waits.
//
//go:noinline
func (w *Worker) letGo(q *Question, e Event, now Time) Effect {
	if !w.warned {
		w.warned = true
		w.host.Warn("sluice: a request was " + q.state.String() + " when this happened: " + e.String() +
			"; this is a bug in Sluice, and the failure mode decides about such requests (logged once)")
	}
	switch q.state {
	case Arriving, Asking:
		w.crowd.remove(q)
		w.questions.ready.remove(q)
		q.giveUp()
		w.conclude(q, now)
		return w.step(q, q.verdict.Event, nil, now)
	case Held:
		w.queue.remove(q)
		return w.step(q, q.atItsTurn(), nil, now)
	}
	return Impossible
}

// giveUp leaves all that a request waits for undecided.
func (q *Question) giveUp() {
	q.waiting = 0
	for i := range q.Checks {
		if c := &q.Checks[i]; !c.Decided() {
			c.Status = Undecided
		}
	}
}
