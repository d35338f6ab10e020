package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// This file is the world as the Envoy around a Worker, and as its connection to Redis.

// connect puts a connection in place of one to Redis.
func (w *world) connect(conn Connection) { w.worker.conn, w.stores.remote.conn = conn, conn }

// Say implements Host.
func (w *world) Say(contextID uint32, _ string) { w.stream(contextID) }

// Resume implements Host.
func (w *world) Resume(contextID uint32) {
	r := w.stream(contextID)
	if !r.waited {
		w.t.Fatalf("request %d was resumed before it was paused", r.id)
	}
	r.admitted = true
	w.exit(r)
}

// Request implements Host.
func (w *world) Request(contextID uint32) rule.Request { return w.stream(contextID).headers }

// Answer implements Host.
func (w *world) Answer(contextID uint32, r *answer.Rejection) {
	w.stream(contextID).rejection = *r
	if r.Undecided != (len(r.By) == 0 && !r.Blocked) {
		w.t.Fatalf("request %d: %+v", contextID, r)
	}
	w.exit(w.stream(contextID))
}

// SetHeaders implements Host.
func (w *world) SetHeaders(contextID uint32, headers [][2]string) {
	r := w.stream(contextID)
	for _, h := range headers {
		r.set = append(r.set, h[0]+": "+h[1])
	}
}

// Report implements Host.
func (w *world) Report(contextID uint32, r *answer.Report) {
	req := w.stream(contextID)
	req.report = *r
	req.report.Limits = slices.Clone(r.Limits)
	w.exit(req)
}

// TickWithin implements Host.
func (w *world) TickWithin(micros, nowMicros int64) {
	if micros == 0 {
		return
	}
	if at := nowMicros + micros; w.tickAt == 0 || at < w.tickAt {
		w.tickAt = at
	}
}

// Warn implements Host.
func (w *world) Warn(line string) { w.t.Fatal(line) }

// stream is the request of a context. Envoy must still know it.
func (w *world) stream(contextID uint32) *request {
	r := w.streams[contextID]
	if r == nil {
		w.t.Fatalf("context %d is gone", contextID)
	}
	return r
}

// exit notes that a request goes on, or is answered.
func (w *world) exit(r *request) {
	if r.exits++; r.exits > 1 {
		w.t.Fatalf("request %d got %d exits", r.id, r.exits)
	}
}

// begin brings a request, of which no store was asked yet.
func (w *world) begin(h headers) *Question {
	applied, _ := w.rules.Apply(h, &w.matcher)
	w.nextID++
	w.began++
	q := w.worker.Question(w.nextID)
	r := &request{id: w.nextID, question: q, headers: h}
	w.requests[q], w.streams[r.id] = r, r
	if !q.Keep(applied) {
		w.t.Fatal("no rule applies")
	}
	return q
}

// send has the worker decide about a request that was begun.
func (w *world) send(q *Question) {
	r := w.requests[q]
	w.live = append(w.live, r)
	switch effect := w.worker.Arrive(q, w.now); {
	case effect == Continue:
		r.admitted = true
		w.exit(r)
	case effect != Pause:
		w.t.Fatalf("request %d: effect %s", r.id, effectNames[effect])
	case r.exits == 0:
		r.waited = true
	}
	w.bury()
}

// bury puts the requests that have ended aside, for the books to be checked.
func (w *world) bury() {
	alive := w.live[:0]
	for _, r := range w.live {
		q := r.question
		if q.ContextID == r.id && q.State() != Ended {
			alive = append(alive, r)
			continue
		}
		w.ended = append(w.ended, r)
		if w.requests[q] == r && q.ContextID != r.id {
			delete(w.requests, q) // it is about to be used again
		}
	}
	clear(w.live[len(alive):])
	w.live = alive
}

// hear has Redis say something.
func (w *world) hear(something func()) {
	w.deliver = something
	w.worker.Received(nil, w.now)
	w.bury()
}

// tick lets the worker's timer tick if it is due.
func (w *world) tick() {
	if w.tickAt == 0 || w.now.SteadyMicros < w.tickAt {
		return
	}
	w.tickAt = 0
	w.worker.Tick(w.now)
	w.TickWithin(w.worker.NextMicros(w.now.SteadyMicros), w.now.SteadyMicros)
	w.bury()
}

// Received and Closed implement Connection: what Redis says was put into deliver.
func (w *world) Received([]byte, int64) { w.deliver() }
func (w *world) Closed(int64)           { w.deliver() }

// ReceivedBeside and ClosedBeside implement Connection. There is one stream.
func (w *world) ReceivedBeside([]byte, int64) {}
func (w *world) ClosedBeside(int64)           {}

// Tick, SendOutbox and Idle implement Connection. Timeouts come by chance.
func (w *world) Tick(int64)       {}
func (w *world) SendOutbox(int64) {}
func (w *world) Idle() bool       { return true }

// NextTickMicros implements Connection.
func (w *world) NextTickMicros(int64) int64 {
	if len(w.flying) > 0 {
		return 4_000
	}
	return 0
}
