package decide

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
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
	t      *testing.T
	random *rand.Rand
	now    Time
	rules  *rule.Set
	stores *Stores

	plans   map[*redis.Script]*algo.Plan
	states  map[string][]algo.State // by script and tag
	ledger  map[int64]*call         // by nonce
	nonce   int64
	down    bool           // no connection can be opened
	steady  bool           // nothing happens by chance
	owed    []redis.Charge // whose slots are given back when Redis is there
	heard   int64          // Redis' time, as far as the worker knows it; 0: not at all
	resized int            // calls that were for another time
	added   []*call        // since Begin
	flying  []*call        // Redis has been sent them, and the last word is not spoken

	shared    map[string][]byte // of the embedded store
	requests  map[*Question]*request
	nextID    uint32
	live      []*Question // their streams have not ended, or they are Gone
	ended     []*request
	concluded int
	verdict   Verdict // of the last question that answered concluded
	events    [metric.Events]int64
}

// call is one check that Redis was sent.
type call struct {
	waiter  redis.Waiter
	index   int
	charge  redis.Charge
	expired bool
	reply   *redis.Reply // nil: Redis has not run it yet

	late    bool  // its request had been concluded without it
	charged int64 // units
	given   int64 // units that were given back
	lost    bool  // its reply, or what gives it back, was lost on the way
}

// request is one request as Envoy and the client see it.
type request struct {
	id        uint32
	calls     []int64 // nonces
	concluded int
	exits     int // resumed or answered
	waited    bool
	left      bool
	admitted  bool
	verdict   Verdict
	response  response
}

// response is what the upstream answers: a status, and a header that says what the
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
	}
	w.stores = NewStores(cfg, rules, local.New(w, local.Options{}), w)
	for i, script := range w.stores.scripts {
		w.plans[script] = rules.LimitSets[i].Plan
	}
	w.stores.Connect(w)
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
func (w *world) Crowded(others bool, _ int64) bool {
	return !w.steady && !w.down && w.random.IntN(4) < 1+btoi(others)
}

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
func (w *world) Add(waiter redis.Waiter, index int, charge redis.Charge) int64 {
	w.nonce++
	charge.Nonce = w.nonce
	charge.Tag, charge.Costs, charge.Sizes = slices.Clone(charge.Tag), slices.Clone(charge.Costs), slices.Clone(charge.Sizes)
	c := &call{waiter: waiter, index: index, charge: charge}
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

// units is what a charge takes of each limit.
func units(charge redis.Charge) int64 {
	if len(charge.Costs) > 0 {
		return charge.Costs[0]
	}
	return charge.Cost
}

// Refund implements Redis.
func (w *world) Refund(charge redis.Charge, _ int64) {
	c := w.ledger[charge.Nonce]
	if w.down {
		c.lost = true
		w.Release(charge, 0)
		return
	}
	plan := w.planOf(charge)
	plan.RefundAs(charge.Nonce, w.state(charge), charge.AtMicros, w.now.UnixMicros, plan.Each(units(charge)))
	if c.given += units(charge); c.given > c.charged {
		w.t.Fatalf("call %d charged %d and was given back %d", charge.Nonce, c.charged, c.given)
	}
}

// Settle implements Redis.
func (w *world) Settle(charge redis.Charge, nowMicros int64) { w.Refund(charge, nowMicros) }

// Release implements Redis. What cannot be sent is sent later.
func (w *world) Release(charge redis.Charge, _ int64) {
	charge.Tag, charge.Costs, charge.Strikes = slices.Clone(charge.Tag), slices.Clone(charge.Costs), slices.Clone(charge.Strikes)
	w.owed = append(w.owed, charge)
	w.release()
}

// release gives slots back that are owed.
func (w *world) release() {
	for ; !w.down && len(w.owed) > 0; w.owed = w.owed[1:] {
		charge := w.owed[0]
		plan := w.plans[charge.Script]
		if i, ok := plan.Slots(); ok {
			costs := plan.Each(0)
			costs[i] = units(charge)
			plan.RefundAs(charge.Nonce, w.state(charge), 0, w.now.UnixMicros, costs)
		}
	}
}

// Renew implements Redis.
func (w *world) Renew(script *redis.Script, tag []byte, slots []int64, _ int64) {
	for ; !w.down && len(slots) > 0; slots = slots[2:] {
		state := w.state(redis.Charge{Script: script, Tag: tag})
		w.plans[script].Renew(state, w.now.UnixMicros, slots[0], slots[1])
	}
}

func (w *world) state(charge redis.Charge) []algo.State {
	plan := w.plans[charge.Script]
	for i, script := range w.stores.scripts {
		if script != charge.Script {
			continue
		}
		key := string(rune('a'+i)) + string(charge.Tag)
		if w.states[key] == nil {
			w.states[key] = make([]algo.State, len(plan.Limits()))
		}
		return w.states[key]
	}
	w.t.Fatal("a script of nobody")
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
	if at := w.now.UnixMicros; plan.OtherTime(at) {
		w.resized++
		reply := &redis.Reply{Ruling: algo.Ruling{AtMicros: at}}
		c.charge.Sizes = slices.Clone(c.waiter.Resize(c.index, reply, w.now.SteadyMicros))
		if plan = w.planOf(c.charge); plan.OtherTime(at) {
			w.t.Fatalf("at %d it was asked again with %v", at, c.charge.Sizes)
		}
	}
	if plan.Terms().Overrides && !w.steady {
		if plan = w.override(c, plan); plan == nil {
			return
		}
	}
	out := make([]algo.Decision, len(plan.Limits()))
	plan.Rebase(w.state(c.charge), w.now.UnixMicros)
	allowed := plan.DecideAs(c.charge.Nonce, w.state(c.charge), w.now.UnixMicros, plan.Each(units(c.charge)), out)
	c.reply = &redis.Reply{Ruling: algo.Ruling{AtMicros: w.now.UnixMicros, Allowed: allowed}, Decisions: out}
	if allowed {
		c.charged = units(c.charge)
	}
}

// override is what an operator may have set by the time that Redis runs a call: now and
// then it is free, or blocked, which is the answer, or its limits have another factor.
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
		reply := &redis.Reply{Ruling: algo.Ruling{AtMicros: w.now.UnixMicros, Factor: 1 + w.random.Int64N(3000)}}
		sizes := slices.Clone(c.waiter.Resize(c.index, reply, w.now.SteadyMicros))
		if len(sizes) != len(plan.Limits()) {
			w.t.Fatalf("asked again with %v", sizes)
		}
		if sizes[0] != (algo.Size{}) { // else nobody waits for it any more
			c.charge.Sizes = sizes
		}
		return w.planOf(c.charge)
	default:
		return plan
	}
	c.reply = &redis.Reply{Ruling: ruling}
	return nil
}

// Count, RedisFailed, RoundTrip, BreakerChanged and Concluded implement Recorder.
func (w *world) Count(e metric.Event, n int64)     { w.events[e] += n }
func (w *world) RedisFailed(redis.Cause)           {}
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

// worth is what an admitted request ought to have paid for a call, see interleaved.
func (w *world) worth(r *request, c *call) int64 {
	name := ""
	for i, script := range w.stores.scripts {
		if script == c.charge.Script {
			name = w.rules.LimitSets[i].Rule.Name
		}
	}
	settles := name == "login" || name == "tokens"
	switch {
	case settles && c.late:
		return 0
	case !settles || c.charged == 0 || name == "login" && (!r.response.came || r.response.status == 401):
		return c.charged
	case name == "tokens" && r.response.cost != "":
		cost, _ := strconv.ParseInt(r.response.cost, 10, 64)
		return min((cost+1)/2, 7)
	}
	return 0
}
