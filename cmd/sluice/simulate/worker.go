package simulate

import (
	"errors"
	"math/rand/v2"
	"slices"

	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/decide"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// worker is one worker thread of one Envoy: the plugin's own decide.Worker, with the world
// around it in simulate's hands.
type worker struct {
	world   *World
	decides *decide.Worker
	open    bool
	stream  int   // which of its streams is open: what comes for an earlier one is lost
	tickAt  int64 // its next tick; 0 for none
	begun   uint32
	waiting map[uint32]*request // by the contexts of their questions
	over    []*request          // that were let go or answered in this callback
	breaker redis.BreakerState
}

func newWorker(w *World, index int, shared local.SharedData) *worker {
	k := &worker{world: w, waiting: map[uint32]*request{}}
	chance := rand.NewPCG(w.options.Seed, uint64(index)+1000)
	var embedded *local.Store
	if w.cfg.UsesEmbeddedStore() {
		embedded = local.New(shared, chance, "")
	}
	k.decides = decide.NewWorker(w.cfg, w.rules, embedded, k, k, chance)
	if w.cfg.Redis != nil {
		k.decides.Connect(k, redis.Options{
			KeyPrefix:     w.cfg.Redis.KeyPrefix,
			TimeoutMicros: w.cfg.Redis.TimeoutMicros,
			MaxPending:    w.cfg.Failure.MaxPending,
			Breaker:       w.cfg.Failure.Breaker,
			Cluster:       w.cfg.Redis.Cluster,
			Seed:          uint64(index) + 1,
		})
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

// Send implements redis.Host. It takes commands on their way to Redis, and what that replies back.
func (k *worker) Send(commands []byte) error {
	if !k.open {
		return errAway
	}
	w, s, sent := k.world, k.world.server, slices.Clone(commands)
	there, stream := w.options.RoundTripMicros/2, k.stream
	isOpen := func() bool { return k.open && stream == k.stream } // what comes for an earlier one is lost
	w.schedule(w.now+there, func() {
		if w.away() || within(w.options.Hangs, w.now-epochMicros) || !isOpen() {
			return
		}
		s.received += int64(len(sent))
		s.arrivals++
		s.readyMicros = w.now
		replies := s.twin.Receive(nil, sent, w.now)
		w.schedule(s.readyMicros+w.options.RoundTripMicros-there, func() {
			if isOpen() {
				k.decides.Received(replies, k.now())
				k.end()
			}
		})
	})
	return nil
}

// CloseStream implements redis.Host.
func (k *worker) CloseStream() { k.open = false }

// SwapStreams implements redis.Host. Streams live for ever here.
func (k *worker) SwapStreams() {}

// CloseStatus implements redis.Host.
func (k *worker) CloseStatus() uint32 { return 0 }

// Warn implements redis.Host and decide.Host.
func (k *worker) Warn(line string) { k.world.tally.logged(line) }

// Info implements redis.Host.
func (k *worker) Info(line string) { k.world.tally.logged(line) }

// Tried implements redis.Host. No startup check is asked for.
func (k *worker) Tried(bool, string) {}

// Turn implements redis.Host. No worker watches this Redis.
func (k *worker) Turn(int64) bool { return false }

// Examined implements redis.Host.
func (k *worker) Examined(redis.ServerStats, int64) {}

// Say implements decide.Host. There are no access logs.
func (k *worker) Say(uint32, string) {}

// Resume implements decide.Host.
func (k *worker) Resume(contextID uint32) { k.over = append(k.over, k.waiting[contextID]) }

// Request implements decide.Host.
func (k *worker) Request(contextID uint32) rule.Request { return k.waiting[contextID].http }

// Answer implements decide.Host.
func (k *worker) Answer(contextID uint32, _ *answer.Rejection) {
	k.over = append(k.over, k.waiting[contextID])
}

// SetHeaders implements decide.Host. No upstream reads them.
func (k *worker) SetHeaders(uint32, [][2]string) {}

// Report implements decide.Host.
func (k *worker) Report(contextID uint32, _ *answer.Report) {
	k.over = append(k.over, k.waiting[contextID])
}

// minTickMicros is how often Envoy's timer ticks at most.
const minTickMicros = 4000

// TickWithin implements decide.Host.
func (k *worker) TickWithin(micros, nowMicros int64) {
	if micros == 0 {
		return
	}
	if at := nowMicros + max(micros, minTickMicros); k.tickAt == 0 || at < k.tickAt {
		k.tickAt = at
		k.world.schedule(at, func() {
			if k.tickAt == k.world.now { // else an earlier one has come in its place
				k.tickAt = 0
				k.decides.Tick(k.now())
				k.end()
				k.TickWithin(k.decides.NextMicros(k.world.now), k.world.now)
			}
		})
	}
}

func (k *worker) now() decide.Time {
	return decide.Time{SteadyMicros: k.world.now, UnixMicros: k.world.now}
}

// arrive decides a request, or lets it wait.
func (k *worker) arrive(r *request) {
	r.http.Use(k.world.options.Expressions)
	r.http.Strip(k.world.rules)
	applied, _, asking := k.world.rules.Apply(r.http, &k.world.matcher)
	k.begun++
	q := k.decides.Question(k.begun)
	r.question, k.waiting[k.begun] = q, r
	effect := decide.Continue
	decides := q.Keep(applied)
	if asking != rule.NotForQuota {
		q.Reports(asking)
		decides = true
	}
	if decides {
		effect = k.decides.Arrive(q, k.now())
	} else {
		k.decides.Pass(q, "")
		k.world.tally.concluded(r, nil, decide.Verdict{Event: decide.Admitted}, k.world.now)
	}
	if effect == decide.Continue {
		k.over = append(k.over, r)
	}
	k.end()
}

// end ends the streams of those that were let go or answered: responses take no time here, so
// that none holds slots for any.
func (k *worker) end() {
	for _, r := range k.over {
		delete(k.waiting, r.question.ContextID)
		var resp rule.Response
		if r.status > 0 {
			resp = response(r.status)
			k.decides.Responds(r.question, resp)
		}
		k.decides.Ends(r.question, resp, k.now())
	}
	k.over = k.over[:0]
}

// admits reports whether an outcome lets the request go on.
func admits(o answer.Outcome) bool {
	return o != answer.Limited && o != answer.LocalLimited && o != answer.Blocked && o != answer.FailedDeny
}

// sharedData is the memory that the workers of one Envoy share. They run one after the other here, so that no
// version changes between a Get and its Set.
type sharedData map[string][]byte

// Get implements local.SharedData.
func (s sharedData) Get(key string) ([]byte, uint32, error) {
	value, ok := s[key]
	if !ok {
		return nil, 0, local.ErrNotFound
	}
	return slices.Clone(value), 1, nil
}

// Set implements local.SharedData.
func (s sharedData) Set(key string, value []byte, _ uint32) error {
	s[key] = slices.Clone(value)
	return nil
}
