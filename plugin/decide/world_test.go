package decide

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// world is one worker in its Envoy, with a real connection to a Redis of Go twins. Everything is in a
// test's hand: when Redis runs a command and when the reply comes, which clients leave, and the time.
// What happens by chance is the simulation's, see plugin/simulate_test.go.
type world struct {
	t       *testing.T
	now     Time
	rules   *rule.Set
	matcher rule.Matcher
	worker  *Worker
	stores  *Stores // the worker's

	server      *twinredis.Server
	aheadMicros int64            // of Redis' clock
	away        bool             // no connection can be opened
	open        bool             // there is one
	flying      [][][]byte       // the words of the commands that Redis has not run
	replies     []byte           // that the worker has not heard
	calls       []twinredis.Call // that have run
	charged     map[string]int64 // units in Redis, by tag

	shared  map[string][]byte   // of the embedded store
	streams map[uint32]*request // by context, of those that Envoy knows
	nextID  uint32
	events  [metric.Events]int64
	failed  map[redis.Cause]int
	ignored []string // tags of overrides
}

// request is one request as Envoy and the client see it.
type request struct {
	question *Question
	headers  headers
}

// response is the upstream's answer: a status, and a header that says what the
// request has cost.
type response struct {
	status int64
	cost   string // "": there is no such header
}

func (r *response) Header(string) (string, bool)   { return r.cost, r.cost != "" }
func (r *response) Status() int64                  { return r.status }
func (r *response) Unanswered() bool               { return r.status == 503 }
func (r *response) Evaluate(uint32) ([]byte, bool) { return nil, false }

// headers are a request's, as rules read them.
type headers map[string]string

func (h headers) Header(name string) (string, bool) { v, ok := h[name]; return v, ok }
func (h headers) Evaluate(uint32) ([]byte, bool)    { return nil, false }
func (h headers) Property([]string) ([]byte, bool)  { return nil, false }

func (h headers) Fields(m *rule.Matcher) {
	for name, value := range h {
		m.Field(name, value)
	}
}

// newWorld starts a worker with a configuration, in whose text the arguments stand where fmt puts them.
func newWorld(t *testing.T, seed uint64, text string, arguments ...any) *world {
	t.Helper()
	if len(arguments) > 0 {
		text = fmt.Sprintf(text, arguments...)
	}
	cfg, err := config.Parse([]byte(text))
	testenv.OK(t, err)
	rules, err := rule.Compile(cfg, nil)
	testenv.OK(t, err)
	random := rand.New(rand.NewPCG(seed, 7))
	w := &world{
		t: t, rules: rules, server: twinredis.New(rules), now: Time{SteadyMicros: 1e9, UnixMicros: 1_790_000_000e6},
		charged: map[string]int64{}, shared: map[string][]byte{}, streams: map[uint32]*request{},
		failed: map[redis.Cause]int{},
	}
	w.server.LoadScripts()
	w.worker = NewWorker(cfg, rules, local.New(w, random, ""), w, w, random)
	w.stores = w.worker.stores
	w.worker.Connect(wire{world: w}, redis.Options{
		KeyPrefix: cfg.Redis.KeyPrefix, TimeoutMicros: cfg.Redis.TimeoutMicros, MaxPending: cfg.Failure.MaxPending,
		Breaker: cfg.Failure.Breaker, Seed: seed,
	})
	return w
}

// wire is the way to Redis. Other calls than these do not come.
type wire struct {
	*world
	redis.Host
}

func (wire) CloseStatus() uint32 { return 0 }
func (wire) Warn(string)         {}
func (wire) Info(string)         {}
func (wire) Turn(int64) bool     { return false }

func (w wire) OpenStream() error {
	if w.away {
		return errors.New("away")
	}
	w.open = true
	return nil
}

func (w wire) Send(commands []byte) error {
	sent, err := twinredis.Commands[[]byte](commands)
	w.flying = append(w.flying, sent...)
	return err
}

// CloseStream loses the replies that are on the way. Redis runs what it was sent.
func (w wire) CloseStream() {
	w.run(len(w.flying))
	w.open, w.replies = false, nil
}

// lose ends the stream from Redis' side.
func (w *world) lose() {
	if w.open {
		wire{world: w}.CloseStream()
		w.worker.Closed(w.now)
	}
}

// run has Redis run the oldest commands that it was sent.
func (w *world) run(n int) {
	w.server.Ran = w.ran
	for ; n > 0; n-- {
		w.replies = w.server.Do(w.replies, w.flying[0], w.now.UnixMicros+w.aheadMicros)
		w.flying = w.flying[1:]
	}
}

// ran notes a call that Redis has run.
func (w *world) ran(c *twinredis.Call) {
	call := *c
	call.Tag, call.Costs = slices.Clone(c.Tag), slices.Clone(c.Costs)
	w.calls = append(w.calls, call)
	units := int64(0) // of each limit that it charges: the rule's own, or those that pay for them
	for _, cost := range c.Costs {
		units = cmp.Or(units, cost)
	}
	switch {
	case c.Kind == twinredis.Check && c.Allowed:
		w.charged[string(c.Tag)] += units
	case c.Kind == twinredis.Refund:
		w.charged[string(c.Tag)] -= units
	}
}

// hear brings the worker the replies that are on the way.
func (w *world) hear() {
	replies := w.replies
	w.replies = nil
	w.worker.Received(replies, w.now)
}

// next has Redis answer the oldest command.
func (w *world) next() {
	w.run(1)
	w.hear()
}

// answer has Redis answer all that it was sent, and all that follows from that.
func (w *world) answer() {
	for len(w.flying)+len(w.replies) > 0 {
		w.run(len(w.flying))
		w.hear()
	}
}

// set is what an operator sets for an identity.
func (w *world) set(tag, value string, lifeMicros int64) {
	key := string(redis.AppendKey(nil, "rl", []byte(tag), algo.OverrideSuffix))
	if value == "" {
		w.server.Delete(key)
	} else {
		w.server.Set(key, value, lifeMicros, w.now.UnixMicros)
	}
}

// Get and Set are the shared memory of a single worker (local.SharedData).
func (w *world) Get(key string) (value []byte, cas uint32, err error) {
	value, ok := w.shared[key]
	if !ok {
		return nil, 0, local.ErrNotFound
	}
	return value, 1, nil
}

func (w *world) Set(key string, value []byte, _ uint32) error {
	w.shared[strings.Clone(key)] = slices.Clone(value)
	return nil
}

// The Recorder.

func (w *world) Count(e metric.Event, n int64)     { w.events[e] += n }
func (w *world) RequestFailed(cause redis.Cause)   { w.failed[cause]++ }
func (w *world) OverrideIgnored(tag []byte)        { w.ignored = append(w.ignored, string(tag)) }
func (w *world) RoundTrip(int64)                   {}
func (w *world) BreakerChanged(redis.BreakerState) {}
func (w *world) Concluded(*Question, Verdict)      {}

// The Host: the Envoy around the worker.

func (w *world) Say(contextID uint32, _ string)             { w.stream(contextID) }
func (w *world) Request(contextID uint32) rule.Request      { return w.stream(contextID).headers }
func (w *world) Report(contextID uint32, _ *answer.Report)  { w.stream(contextID) }
func (w *world) Resume(contextID uint32)                    { w.stream(contextID) }
func (w *world) SetHeaders(contextID uint32, _ [][2]string) { w.stream(contextID) }
func (w *world) TickWithin(int64, int64)                    {}
func (w *world) Warn(line string)                           { w.t.Fatal(line) }

func (w *world) Answer(contextID uint32, r *answer.Rejection) {
	w.stream(contextID)
	if r.Undecided != (len(r.By) == 0 && !r.Blocked) {
		w.t.Fatalf("request %d: %+v", contextID, r)
	}
}

// stream is the request of a context. Envoy must still know it.
func (w *world) stream(contextID uint32) *request {
	r := w.streams[contextID]
	if r == nil {
		w.t.Fatalf("context %d is gone", contextID)
	}
	return r
}

// begin brings a request, of which no store was asked yet.
func (w *world) begin(h headers) *Question {
	applied, _, _ := w.rules.Apply(h, &w.matcher)
	w.nextID++
	q := w.worker.Question(w.nextID)
	q.arrivedMicros = w.now.SteadyMicros
	w.streams[w.nextID] = &request{question: q, headers: h}
	if !q.Keep(applied) {
		w.t.Fatal("no rule applies")
	}
	return q
}

// arrive brings a request, about which the worker decides, or asks Redis.
func (w *world) arrive(h headers) *Question {
	q := w.begin(h)
	if effect := w.worker.Arrive(q, w.now); effect != Continue && effect != Pause {
		w.t.Fatalf("request %d: effect %s", q.ContextID, effectNames[effect])
	}
	return q
}

// asks is a request with some headers, which waits for Redis.
func (w *world) asks(h headers) *Question {
	w.t.Helper()
	q := w.arrive(h)
	if q.State() != Asking {
		w.t.Fatal("decided without Redis")
	}
	return q
}

// endStream ends a request's stream in Envoy, without a response: the client or the upstream has left.
func (w *world) endStream(q *Question) {
	delete(w.streams, q.ContextID)
	w.worker.Ends(q, nil, w.now)
}

func (w *world) pass(micros int64) {
	w.now.SteadyMicros += micros
	w.now.UnixMicros += micros
}

// ticks lets time pass with the ticks that workers ask for. Redis answers at once.
func ticks(micros int64, all ...*world) {
	for left := micros; left > 0; {
		step := left
		for _, w := range all {
			if next := w.worker.NextMicros(w.now.SteadyMicros); next > 0 {
				step = min(step, max(next, 1000))
			}
		}
		left -= step
		for _, w := range all {
			w.pass(step)
			w.worker.Tick(w.now)
			w.answer()
		}
	}
}
