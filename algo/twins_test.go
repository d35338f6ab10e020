package algo

import (
	"context"
	"crypto/sha1"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/redistest"
)

var ctx = context.Background()

// epoch is where the tests' clock starts, 2040-01-01 in microseconds: their
// keys lie in the future of the real clock, so that Redis expires none.
const epoch = 2208988800_000000

// twins is a plan in Go and in Lua. What decide, rule, settle and renew ask is asked of both, on the
// tests' clock, and the Lua must answer what the Go does, to the microsecond.
type twins struct {
	*Plan
	*lua
	keys     []string // of the limits
	ruleKeys []string // the rule's own, of its terms
	clock    []string // the key of the clock, of scripts that do not call TIME
	states   []State
	penalty  State
	nonce    int64 // of the next call
	over     Over  // of an earlier batch
}

func newTwins(t testing.TB, l *lua, p *Plan, name string) *twins {
	t.Helper()
	w := &twins{Plan: p, lua: l, states: make([]State, len(p.Limits()))}
	for i, limit := range p.Limits() {
		w.keys = append(w.keys, fmt.Sprintf("rl:{%s}%s:%d", name, limit.KeySuffix(), i))
	}
	for _, suffix := range p.TermSuffixes() {
		w.ruleKeys = append(w.ruleKeys, fmt.Sprintf("rl:{%s}%s", name, suffix))
	}
	return w
}

// withoutTime takes the scripts for a Redis that refuses TIME.
func (w *twins) withoutTime() {
	p := *w.Plan
	p.script, p.refund = p.ScriptWithoutTime(), p.RefundScriptWithoutTime()
	w.Plan, w.clock = &p, []string{"rl:{a}" + ClockSuffix}
}

// lua runs scripts on a Redis, at any time, and hands each reply to a check: at once, or in batches.
type lua struct {
	batch  bool // send nothing before flush
	asSent bool // the scripts are on Redis' own clock
	pipe   redis.Pipeliner
	checks []func()
	loaded map[string]string // by its SHA-1 the one of the script on the tests' clock
}

func onRedis(client *redis.Client) *lua {
	return &lua{pipe: client.Pipeline(), loaded: map[string]string{}}
}

// inBatch is one that is sent all calls when the test flushes, or ends.
func inBatch(t testing.TB, client *redis.Client) *lua {
	t.Helper()
	r := onRedis(client)
	r.batch = true
	t.Cleanup(func() { r.flush(t) })
	return r
}

// leadingClock takes the place of the scripts' clock: the two arguments before all others.
const leadingClock = "local time = {table.remove(ARGV, 1), table.remove(ARGV, 1)}\n"

func (r *lua) call(
	t testing.TB, s Script, nowMicros int64, keys []string, args []any, check func(reply *redis.Cmd),
) {
	t.Helper()
	sha, ok := r.loaded[s.SHA1]
	if !ok {
		source := s.Source
		if !r.asSent {
			source = strings.Replace(source, clockLine, leadingClock, 1)
		}
		sha = fmt.Sprintf("%x", sha1.Sum([]byte(source)))
		r.loaded[s.SHA1] = sha
		r.pipe.ScriptLoad(ctx, source)
	}
	if !r.asSent && strings.Contains(s.Source, clockLine) {
		args = append([]any{nowMicros / 1e6, nowMicros % 1e6}, args...)
	}
	reply := r.pipe.EvalSha(ctx, sha, keys, args...)
	if r.checks = append(r.checks, func() { check(reply) }); !r.batch {
		r.flush(t)
	}
}

func (r *lua) flush(t testing.TB) {
	t.Helper()
	_, _ = r.pipe.Exec(ctx) // what fails says so in its reply
	checks := r.checks
	r.checks = nil
	for _, check := range checks {
		check()
	}
}

// asked is what a call brings besides the nonce: one cost is every limit's.
type asked struct {
	costs    []int64
	strikes  []Strikes
	deferred bool
	madeFor  string // an override
}

func costing(costs ...int64) asked { return asked{costs: costs} }

// args are all arguments of a call.
func (w *twins) args(a asked) (all []any) {
	costs := a.costs
	if len(costs) == 1 {
		costs = w.Each(costs[0])
	}
	args := w.CheckArgs(w.nonce, w.over, costs)
	if penalty := w.terms.Penalty; penalty != nil {
		args = append(append(args, penalty.Args()...), string(AppendStrikes(nil, a.strikes, a.deferred)))
	}
	if a.madeFor != "" && w.terms.Overrides {
		args = append(args, a.madeFor)
	}
	for _, arg := range args {
		all = append(all, arg)
	}
	return all
}

// parseReply reads the reply of a decision, and the override that it tells.
func parseReply(p *Plan, reply *redis.Cmd) (r Ruling, out []Decision, told string, err error) {
	elements, err := reply.Slice()
	var values []int64
	for _, element := range elements {
		if text, ok := element.(string); ok {
			told = text
		} else {
			values = append(values, element.(int64))
		}
	}
	out = make([]Decision, len(p.Limits()))
	if err == nil {
		r, err = p.ParseRuling(values, out)
	}
	return r, out, told, err
}

// ruleInLua asks the Lua alone, at once.
func (w *twins) ruleInLua(t testing.TB, now int64, a asked) (r Ruling, out []Decision, told string, err error) {
	t.Helper()
	w.call(t, w.Script(), now, slices.Concat(w.keys, w.ruleKeys, w.clock), w.args(a), func(reply *redis.Cmd) {
		r, out, told, err = parseReply(w.Plan, reply)
	})
	return r, out, told, err
}

// decide asks for costs, or one cost of every limit.
func (w *twins) decide(t testing.TB, now int64, costs ...int64) (out []Decision, allowed bool) {
	t.Helper()
	r, out := w.rule(t, now, costing(costs...))
	return out, r.Allowed
}

// rule asks, of a rule without an override, and returns what the Go decides.
func (w *twins) rule(t testing.TB, now int64, a asked) (want Ruling, out []Decision) {
	t.Helper()
	if len(a.costs) == 1 {
		a.costs = w.Each(a.costs[0])
	}
	p, over := w.Plan, w.over
	want, out = Ruling{AtMicros: now}, make([]Decision, len(w.states))
	var wantErr error
	if p.OtherTime(now) {
		wantErr = ErrOtherTime
	} else if p.terms.Penalty != nil {
		w.penalty, _ = p.terms.Penalty.Rebase(w.penalty, now)
		w.penalty = p.terms.Penalty.Remember(w.penalty, a.strikes, now)
		want.LeftMicros = p.terms.Penalty.LeftMicros(w.penalty, now)
	}
	switch {
	case want.LeftMicros > 0:
		want.By = ByPenalty
	case wantErr == nil:
		p.RebaseFor(w.states, now, a.costs, out)
		if over.Units > 0 {
			want.Allowed = p.DecideBatch(over, w.states, now, a.costs, out)
		} else {
			want.Allowed = p.DecideAs(w.nonce, w.states, now, a.costs, out)
		}
		p.Resolve(out)
		want.Over = want.Allowed && p.OthersPay(out)
		if p.terms.Penalty != nil && !want.Allowed && !a.deferred {
			w.penalty, want.EarnedMicros = p.terms.Penalty.Strike(w.penalty, now)
			Earned(out, want.EarnedMicros)
		}
	}
	w.call(t, w.Script(), now, slices.Concat(w.keys, w.ruleKeys, w.clock), w.args(a), func(reply *redis.Cmd) {
		got, lua, _, err := parseReply(p, reply)
		if got != want || !errors.Is(err, wantErr) || err == nil && !slices.Equal(lua, out) {
			t.Fatalf("%+v at %d, %+v of an earlier batch, of %+v, %+v:\nLua %+v %+v %v\nGo  %+v %+v %v",
				a, now, over, p.limits, p.terms, got, lua, err, want, out, wantErr)
		}
	})
	return want, out
}

// A charge can be settled, and its slots can be renewed.
type charge struct {
	atMicros int64
	nonce    int64
	costs    []int64
}

// refund gives back, of costs, or one cost of every limit, that were charged at a time; below 0 it is owed.
func (w *twins) refund(t testing.TB, charged, now int64, costs ...int64) {
	t.Helper()
	if len(costs) == 1 {
		costs = w.Each(costs[0])
	}
	w.settle(t, now, charge{charged, w.nonce, costs})
}

// settle settles charges in one call: several if they have no slots, and if over has units, of batches.
func (w *twins) settle(t testing.TB, now int64, charges ...charge) {
	t.Helper()
	for _, c := range charges {
		for i, gives := range c.costs {
			if gives > 0 && w.limits[i].Algorithm != Concurrency || gives < 0 && w.limiters[i].owes {
				w.rebase(w.states, now, i, i+1) // the script looks at the key, and so moves times that lie ahead
			}
		}
		if w.over.Units > 0 {
			w.RefundBatch(w.states, c.atMicros, now, c.costs)
		} else {
			w.RefundAs(c.nonce, w.states, c.atMicros, now, c.costs)
		}
	}
	limits := w.limits
	w.sendSettlement(t, now, charges, func(_ int64, err error) {
		if err != nil {
			t.Fatalf("%+v at %d of %+v: %v", charges, now, limits, err)
		}
	})
}

// settleInLua settles in the Lua alone, at once, and returns how many slots were not there.
func (w *twins) settleInLua(t testing.TB, now int64, charges ...charge) (gone int64, err error) {
	t.Helper()
	w.sendSettlement(t, now, charges, func(n int64, failed error) { gone, err = n, failed })
	return gone, err
}

func (w *twins) sendSettlement(t testing.TB, now int64, charges []charge, check func(gone int64, err error)) {
	t.Helper()
	var args []any
	for _, arg := range w.RefundArgs(charges[0].nonce, w.over, charges[0].costs) {
		args = append(args, arg)
	}
	for n, c := range charges {
		for _, cost := range c.costs {
			if n > 0 {
				args = append(args, cost)
			}
		}
		args = append(args, c.atMicros)
	}
	w.call(t, w.RefundScript(), now, slices.Concat(w.keys, w.clock), args, func(reply *redis.Cmd) {
		check(reply.Int64())
	})
}

// renew renews the slots of charges. What was given back is held again: renewal does not ask.
func (w *twins) renew(t testing.TB, now int64, charges ...charge) {
	t.Helper()
	limit, _ := w.Slots()
	args := []any{w.limits[limit].TTLMicros}
	for _, c := range charges {
		if slots := c.costs[limit]; slots > 0 {
			args = append(args, c.nonce, slots)
			w.Renew(w.states, now, c.nonce, slots)
		}
	}
	if len(args) == 1 {
		return
	}
	w.call(t, RenewScript(), now, w.keys[limit:limit+1], args, func(reply *redis.Cmd) {
		if reply.Err() != nil {
			t.Fatalf("renewal of %+v: %v", charges, reply.Err())
		}
	})
}

// forget drops what Redis would have expired by now.
func (w *twins) forget(t testing.TB, now int64) {
	t.Helper()
	var gone []string
	for i, s := range w.states {
		if len(s) > 0 && now/1000 > ceilDiv(w.ExpiresAtMicros(i, s), 1000) {
			w.states[i], gone = s[:0], append(gone, w.keys[i])
		}
	}
	if p := w.terms.Penalty; len(w.penalty) > 0 && now/1000 > ceilDiv(p.ExpiresAtMicros(w.penalty), 1000) {
		w.penalty, gone = w.penalty[:0], append(gone, w.ruleKeys[len(w.ruleKeys)-1])
	}
	if len(gone) > 0 {
		drop := Script{Source: "for _, key in ipairs(KEYS) do redis.call('DEL', key) end return 0", SHA1: "drop"}
		w.call(t, drop, now, gone, nil, func(*redis.Cmd) {})
	}
}

// expire hands check when each limit's key expires, in ms, as PEXPIRETIME says: -2 for no key, -1 for never.
// https://redis.io/docs/latest/commands/pexpiretime/
func (w *twins) expire(t testing.TB, check func(ms []int64)) {
	t.Helper()
	ask := Script{
		Source: "local all = {} for i, key in ipairs(KEYS) do all[i] = redis.call('PEXPIRETIME', key) end return all",
		SHA1:   "expire",
	}
	w.call(t, ask, 0, w.keys, nil, func(reply *redis.Cmd) {
		ms, err := reply.Int64Slice()
		if err != nil {
			t.Fatalf("PEXPIRETIME of %q: %v", w.keys, err)
		}
		check(ms)
	})
}

// expiry is what PEXPIRETIME must say of limit i's key.
func (w *twins) expiry(i int) int64 {
	if at := w.ExpiresAtMicros(i, w.states[i]); at > 0 {
		return ceilDiv(at, 1000)
	}
	return -2
}

// decide decides in Go as the script does, the same cost for each limit.
func decide(p *Plan, states []State, nowMicros, cost int64, out []Decision) bool {
	p.Rebase(states, nowMicros)
	return p.Decide(states, nowMicros, p.Each(cost), out)
}

// refund gives the same cost of each limit back in Go as the script does.
func refund(p *Plan, states []State, chargedAtMicros, nowMicros, cost int64) {
	p.Rebase(states, nowMicros)
	p.Refund(states, chargedAtMicros, nowMicros, p.Each(cost))
}

// startRedis returns a client of a Redis that ends with the test. It waits long
// for the answers to a pipeline of thousands of commands.
func startRedis(t testing.TB, options ...string) *redis.Client {
	t.Helper()
	server := redistest.Start(t, options...)
	client := redis.NewClient(&redis.Options{Addr: server.Addr, Protocol: 2, ReadTimeout: time.Minute})
	t.Cleanup(func() { client.Close() })
	return client
}

// mustPlan makes a plan of limits that are known to be right, under the terms of a rule.
func mustPlan(t testing.TB, limits ...Limit) *Plan {
	t.Helper()
	return mustPlanWithTerms(t, Terms{}, limits...)
}

func mustPlanWithTerms(t testing.TB, terms Terms, limits ...Limit) *Plan {
	t.Helper()
	p, err := NewPlanWithTerms(limits, terms)
	if err != nil {
		t.Fatalf("%+v of %+v: %v", terms, limits, err)
	}
	return p
}
