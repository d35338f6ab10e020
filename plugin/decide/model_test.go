package decide

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/redisresp"
)

// world is one worker in its Envoy, with a real connection to a Redis of Go twins. Everything is in a
// test's hand: when Redis runs a command and when the reply comes, which clients leave, and the time.
type world struct {
	t       *testing.T
	random  *rand.Rand
	steady  bool // nothing happens by chance
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

	shared    map[string][]byte // of the embedded store
	requests  map[*Question]*request
	streams   map[uint32]*request // by context, of those that Envoy knows
	nextID    uint32
	live      []*request // their streams have not ended, or they are Gone
	ended     []*request
	began     int
	concluded int
	tickAt    int64 // on the steady clock; 0: no tick is asked for
	events    [metric.Events]int64
	failed    map[redis.Cause]int
}

// request is one request as Envoy and the client see it.
type request struct {
	id        uint32
	question  *Question
	claims    []claim
	concluded int
	exits     int // resumed or answered
	waited    bool
	left      bool
	admitted  bool
	lossy     bool // a reply about it was lost on the way
	verdict   Verdict
	response  response
	headers   headers          // of the request
	set       []string         // headers that were set on it
	rejection answer.Rejection // the last answer
}

// response is the upstream's answer: a status, and a header that says what the
// request has cost.
type response struct {
	came   bool
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

func newWorld(t *testing.T, seed uint64, text string) *world {
	t.Helper()
	cfg, err := config.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := rule.Compile(cfg, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{
		t: t, random: rand.New(rand.NewPCG(seed, 7)), rules: rules, server: twinredis.New(rules),
		now:     Time{SteadyMicros: 1e9, UnixMicros: 1_790_000_000e6},
		charged: map[string]int64{}, shared: map[string][]byte{}, requests: map[*Question]*request{},
		streams: map[uint32]*request{}, failed: map[redis.Cause]int{},
	}
	w.server.LoadScripts()
	w.worker = NewWorker(cfg, rules, local.New(w, w.random, ""), w, w, w.random)
	w.stores = w.worker.stores
	w.worker.Connect(wire{w}, redis.Options{
		KeyPrefix: cfg.Redis.KeyPrefix, TimeoutMicros: cfg.Redis.TimeoutMicros, MaxPending: cfg.Failure.MaxPending,
		Breaker: cfg.Failure.Breaker, Seed: seed,
	})
	return w
}

// wire is the way to Redis (redis.Host).
type wire struct{ *world }

func (wire) SwapStreams()                      {}
func (wire) CloseStatus() uint32               { return 0 }
func (wire) Warn(string)                       {}
func (wire) Info(string)                       {}
func (wire) Tried(bool, string)                {}
func (wire) Turn(int64) bool                   { return false }
func (wire) Examined(redis.ServerStats, int64) {}

func (w wire) OpenStream() error {
	if w.away {
		return errors.New("away")
	}
	w.open = true
	return nil
}

func (w wire) Send(commands []byte) error {
	for decoder := redisresp.NewDecoder(redisresp.Limits{}); len(commands) > 0; {
		command, n, _ := decoder.Decode(slices.Clone(commands))
		w.flying = append(w.flying, twinredis.Words(nil, command))
		commands = commands[n:]
	}
	return nil
}

// CloseStream loses the replies that are on the way. Redis runs what it was sent.
func (w wire) CloseStream() {
	for _, r := range w.requests {
		r.lossy = r.lossy || r.question.inPipe > 0
	}
	w.run(len(w.flying))
	w.open, w.replies = false, nil
}

// lose ends the stream from Redis' side.
func (w *world) lose() {
	if w.open {
		wire{w}.CloseStream()
		w.worker.Closed(w.now)
		w.bury()
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
	switch {
	case c.Kind == twinredis.Check && c.Allowed:
		w.charged[string(c.Tag)] += units(c.Costs)
	case c.Kind == twinredis.Refund:
		w.charged[string(c.Tag)] -= units(c.Costs)
	}
}

// units is what a charge takes of each limit that it charges: the rule's own, or those that pay for them.
func units(costs []int64) int64 {
	for _, cost := range costs {
		if cost != 0 {
			return cost
		}
	}
	return 0
}

// hear brings the worker the replies that are on the way.
func (w *world) hear() {
	replies := w.replies
	w.replies = nil
	w.worker.Received(replies, w.now)
	w.bury()
}

// next has Redis answer the oldest command.
func (w *world) next() {
	w.run(1)
	w.hear()
}

// fail has Redis answer the oldest command with an error.
func (w *world) fail() {
	w.flying, w.replies = w.flying[1:], append(w.replies, "-ERR no\r\n"...)
	w.hear()
}

// answer has Redis answer all that it was sent, and all that follows from that.
func (w *world) answer() {
	for len(w.flying)+len(w.replies) > 0 {
		w.run(len(w.flying))
		w.hear()
	}
}

// says has Redis answer the oldest check with a ruling, which it does not make, and returns the check's words.
func (w *world) says(r algo.Ruling, decisions ...algo.Decision) (words [][]byte) {
	words = w.flying[0]
	w.flying = w.flying[1:]
	set, _ := w.server.SetOf(words)
	at := w.now.UnixMicros + w.aheadMicros
	numbers := []int64{at, 0, r.LeftMicros}
	switch r.By {
	case algo.ByFree:
		numbers[1] = int64(algo.MarkFree)
	case algo.ByBlock:
		numbers[1] = int64(algo.MarkBlock)
	case algo.ByPenalty:
		numbers[1] = int64(algo.MarkPenalty)
	default:
		numbers = set.Plan.AppendReply(nil, at, decisions)
		if set.Rule.Terms.Penalty != nil {
			numbers = append(numbers, r.EarnedMicros)
		}
	}
	w.replies = redisresp.AppendArray(w.replies, len(numbers))
	for _, n := range numbers {
		w.replies = fmt.Appendf(w.replies, ":%d\r\n", n)
	}
	w.hear()
	return words
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
func (w *world) OverrideIgnored([]byte)            {}
func (w *world) RoundTrip(int64)                   {}
func (w *world) BreakerChanged(redis.BreakerState) {}

func (w *world) Concluded(q *Question, v Verdict) {
	r := w.requests[q]
	r.verdict = v
	r.claim()
	if r.concluded++; r.concluded > 1 {
		w.t.Fatalf("request %d was concluded %d times", r.id, r.concluded)
	}
	w.concluded++
}

// The Host: the Envoy around the worker.

func (w *world) Say(contextID uint32, _ string)            { w.stream(contextID) }
func (w *world) Request(contextID uint32) rule.Request     { return w.stream(contextID).headers }
func (w *world) Report(contextID uint32, _ *answer.Report) { w.exit(w.stream(contextID)) }
func (w *world) Warn(line string)                          { w.t.Fatal(line) }

func (w *world) Resume(contextID uint32) {
	r := w.stream(contextID)
	if !r.waited {
		w.t.Fatalf("request %d was resumed before it was paused", r.id)
	}
	r.admitted = true
	w.exit(r)
}

func (w *world) Answer(contextID uint32, r *answer.Rejection) {
	w.stream(contextID).rejection = *r
	if r.Undecided != (len(r.By) == 0 && !r.Blocked) {
		w.t.Fatalf("request %d: %+v", contextID, r)
	}
	w.exit(w.stream(contextID))
}

func (w *world) SetHeaders(contextID uint32, headers [][2]string) {
	r := w.stream(contextID)
	for _, h := range headers {
		r.set = append(r.set, h[0]+": "+h[1])
	}
}

func (w *world) TickWithin(micros, nowMicros int64) {
	if at := nowMicros + micros; micros > 0 && (w.tickAt == 0 || at < w.tickAt) {
		w.tickAt = at
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

// exit notes that a request goes on, or is answered.
func (w *world) exit(r *request) {
	if r.exits++; r.exits > 1 {
		w.t.Fatalf("request %d got %d exits", r.id, r.exits)
	}
}

// begin brings a request, of which no store was asked yet.
func (w *world) begin(h headers) *Question {
	applied, _, _ := w.rules.Apply(h, &w.matcher)
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

// asks is a request with some headers, which waits for Redis.
func (w *world) asks(h headers) *Question {
	w.t.Helper()
	q := w.begin(h)
	if w.send(q); q.State() != Asking {
		w.t.Fatal("decided without Redis")
	}
	return q
}

// ask is a request without headers, which waits for Redis.
func (w *world) ask() *Question {
	w.t.Helper()
	return w.asks(headers{})
}

// recalls is a request that the worker decides without Redis.
func (w *world) recalls() Verdict {
	w.t.Helper()
	q := w.begin(headers{})
	if w.send(q); q.State() == Asking {
		w.t.Fatal("Redis was asked")
	}
	return q.verdict
}

// conclude lets a request go on that waits for nothing any more, and returns its verdict.
func (w *world) conclude(q *Question) Verdict {
	w.t.Helper()
	w.worker.goOn(w.now)
	if !q.concluded {
		w.t.Fatal("it cannot be concluded")
	}
	return q.verdict
}

// endStream ends a request's stream in Envoy: it was answered or redirected, or the client or the upstream left.
func (w *world) endStream(q *Question) {
	r := w.requests[q]
	if q.State() == Gone || q.State() == Redirected {
		return // its stream has ended already
	}
	if mayGoAgain := q.State() == Passed && !w.steady; mayGoAgain && w.random.IntN(6) == 0 {
		w.redirect(r)
		return
	}
	if r.exits > 0 && w.random.IntN(3) > 0 {
		resp := response{came: true, status: []int64{200, 401, 503}[w.random.IntN(3)]}
		if w.random.IntN(4) > 0 {
			resp.cost = []string{"0", "3", "7", "19"}[w.random.IntN(4)]
		}
		if r.admitted {
			r.response = resp
		}
		w.worker.Responds(q, &resp)
	}
	w.leave(r)
	w.worker.Ends(q, &r.response, w.now)
	w.bury()
}

// leave ends a stream: Envoy does not know its context any more.
func (w *world) leave(r *request) {
	r.left = true
	delete(w.streams, r.id)
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

func (w *world) pass(micros int64) {
	w.now.SteadyMicros += micros
	w.now.UnixMicros += micros
}

// ticks lets time pass with the ticks that the worker asks for. Redis answers at once.
func (w *world) ticks(micros int64) {
	for end := w.now.SteadyMicros + micros; w.now.SteadyMicros < end; {
		step := end - w.now.SteadyMicros
		if next := w.worker.NextMicros(w.now.SteadyMicros); next > 0 {
			step = min(step, max(next, 1000))
		}
		w.pass(step)
		w.worker.Tick(w.now)
		w.answer()
	}
}
