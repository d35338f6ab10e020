package decide

import (
	"math/rand/v2"

	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/metric"
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
// stores and the connection that answer, the requests that wait, and the carrying out of what
// follows. Envoy's callbacks call Arrives, Responds, Ends and the like; Redis' bytes and the
// clock come by Received, Closed and Tick.
//
// A request that was paused goes on in one place: goOn, at the end of Received and of Tick.
type Worker struct {
	host   Host
	stores *Stores
	// conn is not a layer but how the layer of Redis is reached: nil if only the embedded store
	// decides. A second type of it, a connection that does nothing, has each of its calls look for
	// the type: it was tried, and made the .wasm 40 KB larger.
	conn Connection

	questions questions // with those that are ready
	crowd     crowd     // Asking, and Redis is still to be asked
	queue     queue     // Held
	passes    passes    // Redirected
	closing   closing
	display   display
	warned    bool // of a step that cannot be
}

// Connection is the Worker's connection to Redis, see redis.Conn.
type Connection interface {
	Redis
	Received(b []byte, nowMicros int64)
	Closed(nowMicros int64)
	ReceivedBeside(b []byte, nowMicros int64)
	ClosedBeside(nowMicros int64)
	Tick(nowMicros int64)
	NextTickMicros(nowMicros int64) int64
	SendOutbox(nowMicros int64)
	Idle() bool
}

// NewWorker makes the Worker of a configuration. embedded may be nil.
func NewWorker(
	cfg *config.Config, rules *rule.Set, embedded *local.Store, host Host, record Recorder, chance rand.Source,
) *Worker {
	stores := newStores(cfg, rules, embedded, record, chance)
	stores.overrides.host = host
	w := &Worker{
		host: host, stores: stores, questions: questions{stores: stores},
		display: display{texts: answer.NewTexts(""), plans: stores.embedded.plans},
	}
	if cfg.Redis != nil {
		w.crowd = newCrowd(&w.questions, cfg.Redis.TimeoutMicros, chance)
	}
	return w
}

// Connect prepares the connection to Redis; nothing is sent before it is needed. It returns
// the connection for those who count what it does.
func (w *Worker) Connect(host redis.Host, options redis.Options) *redis.Conn {
	conn := redis.New(host, observer{w.stores.record, w.stores}, options)
	w.conn, w.stores.remote.conn = conn, conn
	return conn
}

// Arrive decides about a request whose Question has been asked by Keep, or lets it wait. It
// returns Continue or Pause, for the callback with the request's headers.
func (w *Worker) Arrive(q *Question, now Time) Effect {
	q.arrivedMicros = now.SteadyMicros
	effect := w.step(q, w.ask(q, now), nil, now)
	w.wake(now)
	if effect == Continue {
		return Continue
	}
	return Pause
}

// ask asks about a request that arrives. It returns the event of its verdict, or Waits.
func (w *Worker) ask(q *Question, now Time) Event {
	switch {
	case w.stores.Ask(q, now):
	case w.crowd.keepsBack(q, now):
		return Waits
	case !w.stores.AskRedis(q, now):
		return Waits
	}
	w.conclude(q, now)
	return q.verdict.Event
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
		if q.over && v.Event != Refused {
			w.setHeaders(q)
		}
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
		q.Respond(resp)
	case Keep:
		w.passes.keep(q)
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
	return w.display.limits(q)
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

// Question begins a question about a request.
func (w *Worker) Question(contextID uint32) *Question { return w.questions.begin(contextID) }
