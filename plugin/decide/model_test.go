package decide

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// world is one worker in which everything is in a test's hand: what Redis does and
// when its replies come, which clients leave, and the time. Redis runs the Go twins
// of the scripts, and keeps a ledger of each call.
type world struct {
	t       *testing.T
	random  *rand.Rand
	now     Time
	rules   *rule.Set
	matcher rule.Matcher
	worker  *Worker
	stores  *Stores // the worker's

	plans      map[*redis.Script]*algo.Plan
	states     map[string][]algo.State // by script and tag
	ledger     map[int64]*call         // by nonce
	nonce      int64
	down       bool              // no connection can be opened
	kept       []int64           // us that requests had waited when they were asked about
	overloaded int               // requests that were kept back for the whole timeout
	steady     bool              // nothing happens by chance
	owed       []func()          // what waits in the outbox for Redis
	heard      int64             // Redis' time, as far as the worker knows it; 0: not at all
	resized    int               // calls that were for another time
	setting    map[string]string // overrides, by tag
	added      []*call           // since Begin
	flying     []*call           // Redis has been sent them, and the last word is not spoken

	shared    map[string][]byte // of the embedded store
	requests  map[*Question]*request
	streams   map[uint32]*request // by context, of those that Envoy knows
	nextID    uint32
	live      []*request // their streams have not ended, or they are Gone
	ended     []*request
	began     int
	concluded int
	tickAt    int64   // on the steady clock; 0: no tick is asked for
	deliver   func()  // what Redis says with the next bytes
	verdict   Verdict // of the last question that answered concluded
	events    [metric.Events]int64
}

// call is one check that Redis was sent.
type call struct {
	waiter  redis.Waiter
	index   int
	charge  redis.Charge
	check   redis.Check // as it was sent; what charge has of it may change
	expired bool
	reply   *redis.Reply // nil: Redis has not run it yet

	late    bool  // its request had been concluded without it
	over    bool  // its rule was over, without it
	charged int64 // units
	given   int64 // units that were given back
	lost    bool  // its reply, or what gives it back, was lost on the way
	refused bool  // it was made for another override, and not sent again
}

// request is one request as Envoy and the client see it.
type request struct {
	id        uint32
	question  *Question
	calls     []int64 // nonces
	concluded int
	exits     int // resumed or answered
	waited    bool
	left      bool
	admitted  bool
	verdict   Verdict
	response  response
	headers   headers          // of the request
	set       []string         // headers that were set on it
	rejection answer.Rejection // the last answer
	report    answer.Report    // what it was told of its quota
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
		t: t, random: rand.New(rand.NewPCG(seed, 7)), rules: rules,
		now:   Time{SteadyMicros: 1e9, UnixMicros: 1_790_000_000e6},
		plans: map[*redis.Script]*algo.Plan{}, states: map[string][]algo.State{},
		ledger: map[int64]*call{}, shared: map[string][]byte{}, requests: map[*Question]*request{},
		streams: map[uint32]*request{}, setting: map[string]string{},
	}
	w.worker = NewWorker(cfg, rules, local.New(w, w.random, ""), w, w, w.random)
	w.stores = w.worker.stores
	for i, script := range w.stores.remote.scripts {
		w.plans[script] = rules.LimitSets[i].Plan
	}
	w.connect(w)
	return w
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
	w.shared[strings.Clone(key)] = append([]byte(nil), value...)
	return nil
}

// Crowded implements Redis. By chance requests come in one go.
func (w *world) Crowded(most, _ int64) bool {
	return !w.steady && !w.down && len(w.flying) > 0 && w.random.IntN(4) < 1+btoi(most == 0)
}

// Asked implements Redis.
func (w *world) Asked() (sent, answered uint64) {
	return uint64(w.nonce), uint64(w.nonce) - uint64(len(w.flying))
}

// ListeningMicros, KeptBack and Overloaded implement Redis.
func (w *world) ListeningMicros(nowMicros int64) int64 { return nowMicros }
func (w *world) KeptBack(micros int64)                 { w.kept = append(w.kept, micros) }
func (w *world) Overloaded(int64)                      { w.overloaded++ }

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// Begin implements Redis.
func (w *world) Begin(int64) redis.Cause {
	if w.down {
		return redis.Unreachable
	}
	return redis.NoCause
}

// Add implements Redis.
func (w *world) Add(waiter redis.Waiter, index int, check redis.Check) int64 {
	w.nonce++
	check.Strikes = slices.Clone(check.Strikes)
	c := &call{waiter: waiter, index: index, check: check, charge: redis.Charge{
		Script: check.Script, Cost: check.Cost, Nonce: w.nonce,
	}}
	c.charge.CopyFrom(&check.Demand)
	w.ledger[w.nonce] = c
	w.added = append(w.added, c)
	if q, ok := waiter.(*Question); ok {
		r := w.requests[q]
		r.calls = append(r.calls, w.nonce)
	}
	return w.nonce
}

// RedisMicros implements Redis.
func (w *world) RedisMicros(int64) (micros int64, known bool) {
	return w.heard, w.heard != 0
}

// Flush implements Redis. The stream may end inside it.
func (w *world) Flush(nowMicros int64) {
	sent := w.added
	w.added = nil
	if !w.steady && w.random.IntN(50) == 0 {
		for _, c := range sent {
			c.waiter.Failed(c.index, redis.Lost, nowMicros)
		}
		return
	}
	w.flying = append(w.flying, sent...)
}

// units returns what a charge takes of each limit that it charges: of a rule whose limits may be paid
// for those of one list.
func units(charge redis.Charge) int64 {
	if n := len(charge.Costs); n > 0 && charge.Costs[0] == 0 {
		return charge.Costs[n-1]
	} else if n > 0 {
		return charge.Costs[0]
	}
	return charge.Cost
}

// costs is one cost for each limit.
func costs(charge redis.Charge, plan *algo.Plan) []int64 {
	if len(charge.Costs) > 0 {
		return charge.Costs
	}
	return plan.Each(charge.Cost)
}

// Refund implements Redis. What cannot be sent waits.
func (w *world) Refund(charge redis.Charge, _ int64) {
	var demand rule.Demand
	demand.CopyFrom(&charge.Demand)
	charge.Demand = demand
	w.owed = append(w.owed, func() { w.refund(charge) })
	w.post()
}

func (w *world) refund(charge redis.Charge) {
	c := w.ledger[charge.Nonce]
	plan := w.planOf(charge)
	plan.RefundAs(charge.Nonce, w.state(charge), charge.AtMicros, w.now.UnixMicros, costs(charge, plan))
	if c.given += units(charge); c.given > c.charged {
		w.t.Fatalf("call %d charged %d and was given back %d", charge.Nonce, c.charged, c.given)
	}
}

// Settle implements Redis.
func (w *world) Settle(charge redis.Charge, back []int64, nowMicros int64) {
	charge.Costs = back
	w.Refund(charge, nowMicros)
}

// Release implements Redis. What cannot be sent waits.
func (w *world) Release(script *redis.Script, tag []byte, slots redis.Slots, _ int64) {
	of := redis.Charge{Script: script, Demand: rule.Demand{Tag: slices.Clone(tag)}}
	w.owed = append(w.owed, func() {
		plan := w.plans[script]
		i, _ := plan.Slots()
		costs := plan.Each(0)
		costs[i] = slots.Count
		plan.RefundAs(slots.Nonce, w.state(of), 0, w.now.UnixMicros, costs)
	})
	w.post()
}

// post sends what waits, if Redis is there.
func (w *world) post() {
	for ; !w.down && len(w.owed) > 0; w.owed = w.owed[1:] {
		w.owed[0]()
	}
}

// Renew implements Redis.
func (w *world) Renew(script *redis.Script, tag []byte, slots []redis.Slots, _ int64) {
	for _, s := range slots {
		if state := w.state(redis.Charge{Script: script, Demand: rule.Demand{Tag: tag}}); !w.down {
			w.plans[script].Renew(state, w.now.UnixMicros, s.Nonce, s.Count)
		}
	}
}

func (w *world) state(charge redis.Charge) []algo.State {
	plan := w.plans[charge.Script]
	for i, script := range w.stores.remote.scripts {
		if script != charge.Script {
			continue
		}
		key := string(rune('a'+i)) + string(charge.Tag)
		if w.states[key] == nil {
			w.states[key] = make([]algo.State, len(plan.Limits()))
		}
		return w.states[key]
	}
	w.t.Fatal("a script of no rule")
	return nil
}

// planOf is the plan that a call's arguments make.
func (w *world) planOf(charge redis.Charge) *algo.Plan {
	plan := w.plans[charge.Script]
	if charge.Sizes == nil {
		return plan
	}
	sized, ok := plan.Sized(new(algo.Plan), charge.Sizes)
	if !ok {
		w.t.Fatalf("sizes %v of %v", charge.Sizes, plan.Limits())
	}
	return sized
}

// run lets Redis run a call, once more if it was for another time.
func (w *world) run(c *call) {
	plan := w.planOf(c.charge)
	if plan.Terms().Overrides && !w.steady {
		if plan = w.override(c, plan); plan == nil {
			return
		}
	}
	if at := w.now.UnixMicros; plan.OtherTime(at) {
		w.resized++
		w.again(c, &redis.Reply{Ruling: algo.Ruling{AtMicros: at}})
		if plan = w.planOf(c.charge); plan.OtherTime(at) {
			w.t.Fatalf("at %d it was asked again with %v", at, c.charge.Sizes)
		}
	}
	out := make([]algo.Decision, len(plan.Limits()))
	plan.RebaseFor(w.state(c.charge), w.now.UnixMicros, costs(c.charge, plan), out)
	allowed := plan.DecideAs(c.charge.Nonce, w.state(c.charge), w.now.UnixMicros, costs(c.charge, plan), out)
	c.reply = &redis.Reply{
		Ruling:    algo.Ruling{AtMicros: w.now.UnixMicros, Allowed: allowed, Over: allowed && plan.OthersPay(out)},
		Decisions: out,
	}
	if allowed {
		c.charged = units(c.charge)
	}
}

// again has a call made anew for what a reply says, and reports whether it is sent again.
func (w *world) again(c *call, reply *redis.Reply) bool {
	check := redis.Check{Script: c.charge.Script, Demand: c.charge.Demand, MadeFor: c.check.MadeFor}
	switch c.waiter.Remake(c.index, reply, &check, w.now.SteadyMicros) {
	case redis.NoSense:
		w.t.Fatalf("%+v makes no sense", reply)
	case redis.NotAgain:
		return false
	}
	c.charge.Script, c.charge.Costs, c.charge.Sizes = check.Script, slices.Clone(check.Costs), slices.Clone(check.Sizes)
	c.check.MadeFor = slices.Clone(check.MadeFor)
	n := len(w.plans[check.Script].Limits())
	testenv.Same(w.t, "costs of a check that is made anew", len(check.Costs), n)
	if check.Sizes != nil {
		testenv.Same(w.t, "sizes of a check that is made anew", len(check.Sizes), n)
	}
	return true
}

// settings are those of operators in the interleavings; of each rule some is nonsense.
var settings = []string{"", "x0.5", "x2.5", "tier:pro", "tier:none", "tier:gold", "limits:watched=3", "nonsense"}

// override is a setting that an operator may have made by the time that Redis runs a call: now and
// then it is free, or blocked, which is the answer, or has another value. Then a call that is not
// sent again has no plan.
func (w *world) override(c *call, plan *algo.Plan) *algo.Plan {
	ruling := algo.Ruling{AtMicros: w.now.UnixMicros}
	switch w.random.IntN(30) {
	case 0:
		ruling.Allowed, ruling.By = true, algo.ByFree
	case 1:
		ruling.By, ruling.LeftMicros = algo.ByBlock, algo.Never
	case 2:
		ruling.By, ruling.LeftMicros = algo.ByPenalty, 1+w.random.Int64N(50_000)
	case 3:
		w.setting[string(c.charge.Tag)] = settings[w.random.IntN(len(settings))]
		fallthrough
	default:
		return w.compare(c, plan)
	}
	c.reply = &redis.Reply{Ruling: ruling}
	return nil
}

// compare does with the override of a call what the script does.
func (w *world) compare(c *call, plan *algo.Plan) *algo.Plan {
	set := w.setting[string(c.charge.Tag)]
	if set == string(c.check.MadeFor) {
		return plan
	}
	reply := &redis.Reply{
		Ruling:        algo.Ruling{AtMicros: w.now.UnixMicros, LeftMicros: algo.Never},
		OtherOverride: true, Override: []byte(set),
	}
	if w.again(c, reply) {
		if got := string(c.check.MadeFor); got != set {
			w.t.Fatalf("made for %q, want %q", got, set)
		}
		return w.planOf(c.charge)
	}
	c.refused = true
	return nil
}

// Count, RequestFailed, RoundTrip, BreakerChanged and Concluded implement Recorder.
func (w *world) Count(e metric.Event, n int64)     { w.events[e] += n }
func (w *world) RequestFailed(redis.Cause)         {}
func (w *world) OverrideIgnored([]byte)            {}
func (w *world) RoundTrip(int64)                   {}
func (w *world) BreakerChanged(redis.BreakerState) {}
func (w *world) Concluded(q *Question, v Verdict) {
	r := w.requests[q]
	r.verdict = v
	if r.concluded++; r.concluded > 1 {
		w.t.Fatalf("request %d was concluded %d times", r.id, r.concluded)
	}
	w.concluded++
}

// worth returns what an admitted request ought to have paid for a call, see interleaved.
func (w *world) worth(r *request, c *call) int64 {
	name := ""
	for i, script := range w.stores.remote.scripts {
		if script == c.charge.Script {
			name = w.rules.LimitSets[i].Rule.Name
		}
	}
	login := name == "login" || name == "plan"
	settles := login || name == "tokens"
	switch {
	case settles && c.late, c.over:
		return 0
	case !settles || c.charged == 0 || !r.response.came || login && r.response.status == 401:
		return c.charged
	case name == "tokens" && r.response.cost != "":
		cost, _ := strconv.ParseInt(r.response.cost, 10, 64)
		return min((cost+1)/2, 7)
	}
	return 0
}
