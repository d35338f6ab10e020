package simulate

import (
	"errors"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/decide"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// worker is one worker thread of one Envoy: the plugin's own stores and
// connection, with the world around them in simulate's hands.
type worker struct {
	world   *World
	index   int
	stores  *decide.Stores
	conn    *redis.Conn // nil: only the embedded store decides
	open    bool
	stream  int   // which of its streams is open: what comes for an earlier one is lost
	tickAt  int64 // its next tick; 0 for none
	waiting map[*decide.Question]*request
}

func newWorker(w *World, index int, shared local.SharedData) *worker {
	k := &worker{world: w, index: index, waiting: map[*decide.Question]*request{}}
	var embedded *local.Store
	if w.cfg.Redis == nil || w.cfg.Failure.Mode == config.FailLocal {
		embedded = local.New(shared, local.Options{})
	}
	k.stores = decide.NewStores(w.cfg, w.rules, embedded, &recorder{tally: w.tally})
	if w.cfg.Redis != nil {
		k.conn = redis.New(k, k.stores, redis.Options{
			KeyPrefix:     w.cfg.Redis.KeyPrefix,
			TimeoutMicros: w.cfg.Redis.TimeoutMicros,
			MaxPending:    w.cfg.Failure.MaxPending,
			Breaker:       w.cfg.Failure.Breaker,
			Cluster:       w.cfg.Redis.Cluster,
			Seed:          uint64(index) + 1,
		})
		k.stores.Connect(k.conn)
	}
	return k
}

var errAway = errors.New("redis is away")

// OpenStream implements redis.Host.
func (k *worker) OpenStream() error {
	if k.world.away() {
		return errAway
	}
	k.open = true
	k.stream++
	return nil
}

// Send implements redis.Host.
func (k *worker) Send(commands []byte) error {
	if !k.open {
		return errAway
	}
	k.world.send(k, append([]byte(nil), commands...))
	return nil
}

// CloseStream implements redis.Host.
func (k *worker) CloseStream() { k.open = false }

// Warn implements redis.Host.
func (k *worker) Warn(line string) { k.world.log(k, line) }

// Info implements redis.Host.
func (k *worker) Info(line string) { k.world.log(k, line) }

// Tried implements redis.Host. No trial is asked for.
func (k *worker) Tried(bool, string) {}

func (k *worker) now() decide.Time {
	return decide.Time{SteadyMicros: k.world.now, UnixMicros: k.world.now}
}

// arrive decides a request, or lets it wait.
func (k *worker) arrive(r *request) {
	r.http.Use(k.world.options.Expressions)
	applied, _ := k.world.rules.Apply(r.http, &k.world.matcher)
	q := k.stores.Question(0)
	if !q.Keep(applied) {
		q.Step(decide.Admitted)
		k.world.passed(r)
		k.end(q)
		return
	}
	now := k.now()
	k.waiting[q] = r
	if k.stores.Ask(q, now) {
		k.conclude(q, now)
	} else {
		q.Step(decide.Waits)
	}
	k.wake()
}

// conclude gives a request its verdict.
func (k *worker) conclude(q *decide.Question, now decide.Time) {
	v := k.stores.Conclude(q, now)
	switch q.Step(v.Event) {
	case decide.Enqueue:
		k.stores.Hold(q, v.DelayMicros, now)
		k.world.concluded(k.waiting[q], q, v)
		return
	case decide.GiveBack:
		k.stores.Leave(q, now)
	}
	k.world.concluded(k.waiting[q], q, v)
	k.end(q)
}

// end is the end of the stream: responses take no time here, and nobody holds slots for
// any.
func (k *worker) end(q *decide.Question) {
	delete(k.waiting, q)
	q.Step(decide.StreamEnds)
	k.stores.LetGo(q, k.now())
	k.stores.Release(q)
}

// goOn takes up what waits for nothing any more.
func (k *worker) goOn() {
	now := k.now()
	for {
		q, event := k.stores.Next(now)
		switch {
		case q == nil:
			return
		case event == decide.TurnComes:
			q.Step(decide.TurnComes)
			k.end(q)
		default:
			k.conclude(q, now)
		}
	}
}

// received takes Redis' replies.
func (k *worker) received(stream int, replies []byte) {
	if !k.open || stream != k.stream {
		return
	}
	k.conn.Received(replies, k.world.now)
	k.goOn()
	k.wake()
}

// lost tells that the connection is gone.
func (k *worker) lost() {
	if k.open {
		k.open = false
		k.conn.Closed(k.world.now)
		k.goOn()
		k.wake()
	}
}

// minTickMicros is how often Envoy's timer ticks at most.
const minTickMicros = 4000

// wake has the timer tick in time for what waits next.
func (k *worker) wake() {
	next := k.stores.NextMicros(k.world.now)
	if k.conn != nil {
		if due := k.conn.NextTickMicros(k.world.now); next == 0 || due > 0 && due < next {
			next = due
		}
	}
	if next == 0 {
		return
	}
	if at := k.world.now + max(next, minTickMicros); k.tickAt == 0 || at < k.tickAt {
		k.tickAt = at
		k.world.schedule(at, event{kind: tickEvent, worker: k})
	}
}

func (k *worker) tick() {
	if k.tickAt != k.world.now {
		return // an earlier one has come in its place
	}
	k.tickAt = 0
	if k.conn != nil {
		k.conn.Tick(k.world.now)
	}
	k.stores.Tick(k.now())
	k.goOn()
	k.wake()
}

// retryAfter is the header of a rejection, in us; 0 for none.
func retryAfter(q *decide.Question) int64 {
	longest := int64(0)
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Status != decide.Rejected || !c.Enforced() {
			continue
		}
		for j := range c.Decisions {
			if d := &c.Decisions[j]; d.RetryAfterMicros == algo.Never {
				return 0
			} else if !d.Allowed {
				longest = max(longest, d.RetryAfterMicros)
			}
		}
	}
	const second = 1e6
	return (longest + second - 1) / second * second
}

// admits reports whether an outcome lets the request go on.
func admits(o answer.Outcome) bool {
	return o != answer.Limited && o != answer.LocalLimited && o != answer.Blocked && o != answer.FailedDeny
}
