package decide

import (
	"math/rand/v2"

	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/keyhash"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Host is the Envoy around a Worker. It calls nothing of the Worker within these calls. No
// call names a request whose stream has ended.
type Host interface {
	// Say tells access logs what becomes of a request.
	Say(contextID uint32, text string)
	// Resume lets a paused request go on to the upstream.
	Resume(contextID uint32)
	// Request is a request that arrives or is paused, as rules read it. It is good during the call
	// only.
	Request(contextID uint32) rule.Request
	// Answer sends a response in place of the upstream's. The rejection is good during the
	// call only.
	Answer(contextID uint32, r *answer.Rejection)
	// Report sends what a caller has left in place of the upstream's response. The report is good
	// during the call only.
	Report(contextID uint32, r *answer.Report)
	// TickWithin asks for a call of Worker.Tick in so many microseconds at most; 0 asks for
	// nothing.
	TickWithin(micros, nowMicros int64)
	// SetHeaders sets headers of a request.
	SetHeaders(contextID uint32, headers [][2]string)
	// Warn logs a line.
	Warn(line string)
}

// Worker owns the life of all requests of one configuration in one worker of Envoy: the
// stores and the connection that answer, the requests that wait, and the effects of each
// decision. Envoy's callbacks call Arrives, Responds, Ends and the like; Redis' bytes and the
// clock come by Received, Closed and Tick.
//
// A request that was paused goes on in one place: goOn, at the end of Received and of Tick.
type Worker struct {
	host   Host
	stores *Stores
	conn   *redis.Conn // nil if only the embedded store decides

	questions questions // with those that are ready
	crowd     crowd     // Asking, and Redis is still to be asked
	queue     queue     // Held
	passes    passes    // Redirected
	closing   closing
	display   display
	warned    bool // of a step that cannot be
}

// NewWorker makes the Worker of a configuration. embedded may be nil.
func NewWorker(
	cfg *config.Config, rules *rule.Set, embedded *local.Store, host Host, record Recorder, chance rand.Source,
) *Worker {
	stores := newStores(cfg, rules, embedded, host, record, chance)
	w := &Worker{
		host: host, stores: stores, questions: questions{stores: stores},
		display: display{texts: answer.NewTexts(""), plans: make(plans, len(rules.LimitSets))},
	}
	if cfg.Redis != nil {
		w.crowd = crowd{
			stores: stores, home: &w.questions, timeoutMicros: cfg.Redis.TimeoutMicros, key: keyhash.New(chance.Uint64()),
		}
	}
	return w
}

// Connect prepares the connection to Redis, and sends nothing yet. It returns the connection, whose
// metrics the caller reads.
func (w *Worker) Connect(host redis.Host, options redis.Options) *redis.Conn {
	w.conn = redis.New(host, observer{w.stores.record, w.stores}, options)
	w.stores.remote.conn = w.conn
	return w.conn
}

// Arrive decides about a request whose Question has been asked by Keep, or lets it wait. It
// returns Continue or Pause, for the callback with the request's headers.
func (w *Worker) Arrive(q *Question, now Time) Effect {
	q.arrivedMicros = now.SteadyMicros
	event := Waits
	if w.stores.Ask(q, now) || !w.crowd.keepsBack(q, now) && w.stores.AskRedis(q, now) {
		w.conclude(q, now)
		event = q.verdict.Event
	}
	effect := w.step(q, event, nil, now)
	w.wake(now)
	if effect == Continue {
		return Continue
	}
	return Pause
}

// Pass lets a request go on that no limit applies to. text is for access logs.
func (w *Worker) Pass(q *Question, text string) Effect {
	w.host.Say(q.ContextID, text)
	return w.step(q, Admitted, nil, Time{})
}

// conclude finds the verdict on a request, and tells access logs.
func (w *Worker) conclude(q *Question, now Time) {
	v := w.stores.Conclude(q, now)
	if q.state != Gone {
		w.host.Say(q.ContextID, w.display.text(v))
	}
}

// step takes a request on by an event, and carries out what the table of transitions says. It
// is the one way on for a paused request, and the one way to answer. resp is the response of
// a request that ends.
//
// What it calls for a few effects only is not inlined: a function clears the places of all pointers on
// its stack when it begins, and step begins three times a request.
//
//go:noinline
func (w *Worker) step(q *Question, e Event, resp rule.Response, now Time) Effect {
	effect := q.Step(e)
	switch effect {
	case Resume:
		w.host.Resume(q.ContextID)
	case Enqueue:
		w.stores.record.Count(metric.RequestHeld, 1)
		w.queue.enqueue(q, now.SteadyMicros+q.verdict.DelayMicros)
	case Answer:
		w.host.Answer(q.ContextID, w.display.rejection(q))
	case Report:
		w.host.Report(q.ContextID, w.display.report(q))
	case GiveBack:
		w.queue.remove(q)
		w.stores.Leave(q, now)
	case ShowLimits:
		if q.has.settles {
			q.hear(resp)
		}
	case Keep:
		must.Hold(w.passes.between == nil, "one request at a time is between two passes")
		w.passes.between = q
	case Finish:
		w.stores.Finish(q, resp, now)
	case Impossible:
		return w.impossible(q, e, now)
	}
	w.questions.recycle(q)
	return effect
}

// Responds takes the headers of a response. It returns the limits that they are to show, and
// the Unix time of their decisions; 0 if no store has told one.
func (w *Worker) Responds(q *Question, resp rule.Response) (limits []answer.Limit, atMicros int64) {
	if w.step(q, ResponseComes, resp, Time{}) != ShowLimits {
		return nil, 0
	}
	limits, _, atMicros = w.display.limits(q, nil)
	return limits, atMicros
}

// Ends notes that a request's stream has ended, perhaps while the request waits: its client
// has left. resp is good during the call. The time matters only if q.Unfinished.
func (w *Worker) Ends(q *Question, resp rule.Response, now Time) {
	unfinished := q.Unfinished()
	w.step(q, StreamEnds, resp, now)
	if unfinished {
		w.wake(now)
	}
}

// wake has the host tick in time for what waits.
//
//go:inline
func (w *Worker) wake(now Time) {
	w.host.TickWithin(w.NextMicros(now.SteadyMicros), now.SteadyMicros)
}

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
	return w.conn != nil && w.closing.done(w.conn.Idle(), now.SteadyMicros)
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
		if r := &w.questions.ready; r.first != r.fresh { // the first one has its verdict
			q := r.pop()
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
		q := w.questions.ready.fresh
		if q == nil {
			return
		}
		w.questions.ready.fresh = q.next
		w.conclude(q, now)
	}
}

// NextMicros is how long until something waits for a tick, at least 1; 0 if nothing does.
func (w *Worker) NextMicros(nowMicros int64) int64 {
	if w.questions.ready.first != nil || w.crowd.n > 0 && !w.conn.Crowded(maxRepeats, nowMicros) {
		return 1
	}
	next := Sooner(w.queue.nextMicros(nowMicros), w.stores.nextMicros(nowMicros))
	if w.conn != nil {
		next = Sooner(next, w.conn.NextTickMicros(nowMicros))
	}
	if w.closing.untilMicros > 0 || w.passes.between != nil { // whose pass would have come in the same event
		next = Sooner(next, closingTickMicros)
	}
	return next
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

// closing is the drain of a configuration: it stays for a moment, until its refunds have reached Redis.
type closing struct {
	untilMicros int64 // when it is given up; 0: it is not to end
}

const (
	// Bound: us between looks whether a configuration can end. Below it, looks come no sooner.
	// Protects the worker.
	closingTickMicros = 4_000
	// Bound: us that a configuration outlives its end. Beyond it, what it had to give back is lost.
	// Protects memory: Envoy keeps both configurations.
	maxClosingMicros = 1_000_000
)

// done reports whether the configuration has ended. idle says that nothing of it is under way.
func (c *closing) done(idle bool, nowMicros int64) bool {
	return c.untilMicros > 0 && (idle || nowMicros >= c.untilMicros)
}

// Close ends the configuration. It reports whether it has; otherwise a tick will.
func (w *Worker) Close(now Time) (ended bool) {
	w.EndRedirected(now) // its next pass is on the configuration that follows
	w.stores.Close(now)
	must.Hold(w.closing.untilMicros == 0, "a configuration ends once")
	w.closing.untilMicros = now.SteadyMicros + maxClosingMicros
	if w.conn == nil {
		return true
	}
	w.conn.SendOutbox(now.SteadyMicros)
	if w.closing.done(w.conn.Idle(), now.SteadyMicros) {
		return true
	}
	w.wake(now)
	return false
}

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
		if ready := &w.questions.ready; ready.fresh == q {
			ready.fresh = q.next
		}
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
