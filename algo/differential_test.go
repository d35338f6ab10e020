package algo

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// stepsPerAlgorithm is how many random decisions and refunds of each algorithm
// Go and Lua must agree on; ALGO_STEPS overrides it.
func stepsPerAlgorithm(t *testing.T) int {
	text := os.Getenv("ALGO_STEPS")
	if text == "" {
		return 24_000
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("ALGO_STEPS: %v", err)
	}
	return n
}

// stepsPerPlan is how long one random plan is replayed.
const stepsPerPlan = 150

// TestDifferential replays random sequences on both twins: of one limit, of buckets of which workers take
// batches, and of several limits in one call, perhaps with a guarantee and its pool, or with limits that pay
// for others.
func TestDifferential(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	type family struct {
		name string
		seed uint64
		draw func(r random) []Limit
	}
	families := []family{
		{"several", 7, func(r random) []Limit {
			return r.several(2+r.IntN(5), func(*Limit, int) bool { return true })
		}},
		{"guarantee", 72, func(r random) []Limit {
			return r.withPair(r.several(r.IntN(3), func(l *Limit, _ int) bool { return !l.Queue }))
		}},
		{"over", 73, func(r random) []Limit { // sometimes so many that their numbers are not packed
			own, others := 1+r.IntN(4), 1+r.IntN(3)
			if r.oneIn(10) {
				others = 8
			}
			return r.several(own+others, func(l *Limit, place int) bool {
				l.Over = place >= own
				return !l.Queue
			})
		}},
	}
	for _, a := range Algorithms() {
		families = append(families, family{a.String(), uint64(a), func(r random) []Limit {
			return []Limit{r.classed(r.limit(a))}
		}})
		if a.HasBurst() {
			families = append(families, family{"batches-" + a.String(), 100 + uint64(a), func(r random) []Limit {
				return []Limit{r.lent(a)}
			}})
		}
	}
	for _, f := range families {
		t.Run(f.name, func(t *testing.T) {
			t.Parallel()
			client := client
			if f.name == "several" { // and with sorted sets in Redis' encoding for large ones
				client = startRedis(t)
				testenv.OK(t, client.ConfigSet(ctx, "zset-max-listpack-entries", "0").Err())
			}
			r := newRandom(f.seed)
			for i := range stepsPerAlgorithm(t) / stepsPerPlan {
				replay(t, client, r, fmt.Sprintf("%s-%d", f.name, i), f.draw(r))
			}
		})
	}
}

// several draws so many limits of any algorithms that a plan may have together and that fit.
func (r random) several(n int, fits func(l *Limit, place int) bool) (limits []Limit) {
	all := Algorithms()
	for len(limits) < n {
		l := r.classed(r.limit(all[r.IntN(len(all))]))
		if !fits(&l, len(limits)) {
			continue
		}
		if _, err := NewPlan(append(limits, l)); err == nil {
			limits = append(limits, l)
		}
	}
	return limits
}

// withPair puts a guarantee and its pool among limits: often such that the pool is soon in debt.
func (r random) withPair(limits []Limit) []Limit {
	for {
		both := []Algorithm{GCRA, TokenBucket}
		pool, guarantee := r.classed(r.limit(both[r.IntN(2)])), r.classed(r.limit(both[r.IntN(2)]))
		if r.oneIn(2) {
			guarantee.WindowMicros, guarantee.Units = pool.WindowMicros, r.span(1, pool.Units)
			guarantee.Burst = r.span(1, min(3*pool.Capacity(), MaxUnits))
		}
		pool.Pool, guarantee.Guarantee, guarantee.PerID = true, true, "tenant|"
		at := r.IntN(len(limits) + 1)
		all := slices.Insert(slices.Clone(limits), at, pool)
		all = slices.Insert(all, r.IntN(len(all)+1), guarantee)
		if _, err := NewPlan(all); err == nil {
			return all
		}
	}
}

// lastMicros, in the year 2109, is where the tests' clock is set back: beyond it
// some sums would leave the whole numbers that a double holds.
const lastMicros = 2 * epoch

// sequence is one plan replayed, with sizes that change: first in Go, while the
// same is queued for Redis, then all compared.
type sequence struct {
	*luaPlan
	random
	plain     *Plan // with the sizes it was made of
	pipe      redis.Pipeliner
	states    []State
	nowMicros int64
	steady    int   // for how many steps a size lasts, on average
	ahead     int64 // by how much the clock is ahead for a moment
	forward   bool  // the clock has never been set back
	charges   []charge
	expect    []expectation
}

// charge can be refunded, and renewed.
type charge struct {
	atMicros int64
	nonce    int64
	costs    []int64
}

// expectation holds Redis' answer to a step.
type expectation struct {
	what      string
	plan      *Plan
	reply     *redis.Cmd // nil for a refund
	otherTime bool
	allowed   bool
	decisions []Decision
	expires   []*redis.DurationCmd // PEXPIRETIME of each key, if the clock only went forward
	wantMs    []int64
	later     []bool // of each key: it may expire later than that
}

func replay(t *testing.T, client *redis.Client, r random, name string, limits []Limit) {
	t.Helper()
	r.withCalendars(limits)
	plain := mustPlan(t, limits...)
	s := &sequence{
		luaPlan:   newLuaPlan(t, client, plain, name),
		random:    r,
		plain:     plain,
		pipe:      client.Pipeline(),
		states:    make([]State, len(limits)),
		nowMicros: epoch + r.Int64N(1e15),
		steady:    []int{1, 2, 20, 20}[r.IntN(4)],
		forward:   true,
	}
	last := make([]Decision, len(limits))
	for range stepsPerPlan {
		s.advance(last)
		if s.oneIn(s.steady) {
			s.resize(t)
		}
		s.rebound(t)
		switch _, holds := s.Slots(); {
		case len(s.charges) > 0 && s.oneIn(8):
			s.settleSome()
		case len(s.charges) > 0 && holds && s.oneIn(8):
			s.renewSome(t)
		default:
			last = s.decideOne()
		}
	}
	if _, err := s.pipe.Exec(ctx); err != nil {
		t.Fatalf("%+v: %v", limits, err)
	}
	for i := range s.expect {
		if !s.expect[i].met(t) {
			t.Fatalf("step %d of %s: %+v", i, name, limits)
		}
	}
	s.compareStates(t)
	testenv.OK(t, client.Del(ctx, s.keys...).Err())
}

// advance moves the clock, sometimes back, or ahead for a moment, and drops what
// Redis would by then have expired.
func (s *sequence) advance(last []Decision) {
	i := s.IntN(len(last))
	limit := s.Limits()[i]
	switch {
	case s.ahead > 0 && s.oneIn(3):
		s.nowMicros -= s.ahead
		s.ahead, s.forward = 0, false
	case s.nowMicros > lastMicros:
		s.nowMicros = epoch
		s.ahead, s.forward = 0, false
	case s.oneIn(60):
		s.nowMicros = max(s.nowMicros-s.span(1, 2*max(limit.WindowMicros, limit.TTLMicros)), epoch)
		s.forward = false
	case s.oneIn(60) && s.ahead == 0:
		s.ahead = s.span(1, 10*MaxWindowMicros)
		s.nowMicros += s.ahead
	default:
		s.nowMicros = min(s.nowMicros+s.step(&limit, last[i], s.nowMicros), 1<<52)
	}
	for i, st := range s.states {
		if len(st) > 0 && s.nowMicros/1000 > ceilDiv(s.ExpiresAtMicros(i, st), 1000) {
			s.states[i] = st[:0]
			s.pipe.Del(ctx, s.keys[i])
		}
	}
}

// resize goes on with other limits and bursts, or the first ones again.
func (s *sequence) resize(t *testing.T) {
	t.Helper()
	sizes := make([]Size, len(s.states))
	for i, l := range s.plain.Limits() {
		sizes[i] = s.size(&l)
	}
	sized, ok := s.plain.Sized(new(Plan), sizes)
	if !ok {
		t.Fatalf("%v of %+v", sizes, s.plain.Limits())
	}
	s.Plan = sized
}

// decideOne decides on one cost for all limits, or on a cost for each.
func (s *sequence) decideOne() []Decision {
	capacity := int64(MaxUnits)
	for i := range s.Limits() {
		capacity = min(capacity, s.Limits()[i].Capacity())
	}
	costs := s.Each(s.cost(capacity))
	if s.oneIn(3) {
		for i := range costs {
			costs[i] = s.cost(s.Limits()[i].Capacity())
		}
	}
	out := make([]Decision, len(s.states))
	if s.OtherTime(s.nowMicros) {
		s.expectExpiry(expectation{
			what:      fmt.Sprintf("costs %d at %d, which is another time, of %+v", costs, s.nowMicros, s.Limits()),
			plan:      s.Plan,
			reply:     s.decideEach(s.pipe, s.nowMicros, costs),
			otherTime: true,
		})
		return out
	}
	s.RebaseFor(s.states, s.nowMicros, costs, out)
	s.nonce += 1 + s.Int64N(1<<40)
	s.over = s.someOver(costs[0])
	allowed := s.decideNext(costs, out)
	charged := slices.Clone(costs)
	if guarantee, _, _ := s.Guarantee(); s.Resolve(out) {
		charged[guarantee] = 0
	}
	for i := range charged {
		if over := s.OthersPay(out); over == (i < s.Own()) {
			charged[i] = 0
		}
	}
	if allowed {
		s.charges = append(s.charges, charge{s.nowMicros, s.nonce, charged})
	}
	s.expectExpiry(expectation{
		what:      fmt.Sprintf("costs %d at %d of %+v", costs, s.nowMicros, s.Limits()),
		plan:      s.Plan,
		reply:     s.decideEach(s.pipe, s.nowMicros, costs),
		allowed:   allowed,
		decisions: out,
	})
	return out
}

// someOver draws the units that an earlier batch has left over when the next one is charged.
func (s *sequence) someOver(cost int64) (over Over) {
	if !s.TakesOver(0) || cost <= 1 {
		return over
	}
	if len(s.charges) > 0 && !s.oneIn(3) {
		c := s.charges[len(s.charges)-1-s.IntN(min(len(s.charges), 4))]
		over = Over{s.span(1, max(c.costs[0], 1)), c.atMicros}
	}
	return over
}

func (s *sequence) decideNext(costs []int64, out []Decision) (allowed bool) {
	if s.over.Units > 0 {
		return s.DecideBatch(s.over, s.states, s.nowMicros, costs, out)
	}
	return s.DecideAs(s.nonce, s.states, s.nowMicros, costs, out)
}

// settleSome gives back some of the last charges, a part of each limit's, or charges
// more, perhaps not for the last time. Those that are under no nonce go in one call.
func (s *sequence) settleSome() {
	n := 1
	if _, slots := s.Slots(); !slots {
		n += s.IntN(3)
	}
	if s.over = (Over{}); s.TakesOver(0) && s.oneIn(2) {
		s.over.Units = 1
	}
	all := make([]settlement, 0, n)
	last := s.nonce
	for range min(n, len(s.charges)) {
		c := s.settleOne()
		all, s.nonce = append(all, settlement{c.costs, c.atMicros}), c.nonce
	}
	s.giveBackAll(s.pipe, s.nowMicros, all)
	s.nonce = last
	s.expectExpiry(expectation{what: fmt.Sprintf("settlements %+v at %d", all, s.nowMicros)})
}

// settleOne settles one charge in Go, and returns it with what that gave back.
func (s *sequence) settleOne() charge {
	i := len(s.charges) - 1 - s.IntN(min(len(s.charges), 4))
	c := s.charges[i]
	if !s.oneIn(4) {
		s.charges = slices.Delete(s.charges, i, i+1)
	}
	c.costs = slices.Clone(c.costs)
	for i := range c.costs {
		if !s.oneIn(2) {
			c.costs[i] = s.difference(c.costs[i], s.Limits()[i].Capacity())
		}
		if looksAt(&s.Limits()[i], c.costs[i]) {
			s.rebase(s.states, s.nowMicros, i, i+1)
		}
	}
	if s.over.Units > 0 {
		s.RefundBatch(s.states, c.atMicros, s.nowMicros, c.costs)
	} else {
		s.RefundAs(c.nonce, s.states, c.atMicros, s.nowMicros, c.costs)
	}
	return c
}

// looksAt reports whether a settlement's script looks at a limit's key, and so moves times that
// lie in the future.
func looksAt(l *Limit, gives int64) bool {
	if l.Algorithm == Concurrency {
		return false
	}
	return gives > 0 || gives < 0 && !l.Queue && l.LeaseMicros == 0
}

// renewSome renews the slots of some of the last charges, in one call. What was given
// back is held again: renewal does not ask.
func (s *sequence) renewSome(t *testing.T) {
	t.Helper()
	limit, _ := s.Slots()
	args := []any{s.Limits()[limit].TTLMicros}
	for i := max(0, len(s.charges)-1-s.IntN(4)); i < len(s.charges); i++ {
		if c := s.charges[i]; c.costs[limit] > 0 {
			args = append(args, c.nonce, c.costs[limit])
			s.Renew(s.states, s.nowMicros, c.nonce, c.costs[limit])
		}
	}
	if len(args) > 1 {
		source := strings.Replace(RenewScript().Source, "#ARGV, 2", "#ARGV - 3, 2", 1) // the test's clock
		sha := loadOnTestClock(t, s.client, source)
		args = append(args, s.nowMicros/1e6, s.nowMicros%1e6, "")
		s.pipe.EvalSha(ctx, sha, s.keys[limit:limit+1], args...)
		s.expectExpiry(expectation{what: fmt.Sprintf("renewal of %v at %d", args, s.nowMicros)})
	}
}

func (s *sequence) expectExpiry(e expectation) {
	if s.forward {
		for i, st := range s.states {
			e.expires = append(e.expires, s.pipe.PExpireTime(ctx, s.keys[i]))
			e.wantMs = append(e.wantMs, wantExpiry(s.ExpiresAtMicros(i, st)))
			e.later = append(e.later, s.Limits()[i].Algorithm == Concurrency && len(st) > 0)
		}
	}
	s.expect = append(s.expect, e)
}

// wantExpiry is PEXPIRETIME's answer: milliseconds, rounded up; -2 for no key.
// https://redis.io/docs/latest/commands/pexpiretime/
func wantExpiry(micros int64) int64 {
	if micros == 0 {
		return -2
	}
	return ceilDiv(micros, 1000)
}

func (e *expectation) met(t *testing.T) bool {
	t.Helper()
	ok := e.reply == nil || e.replyMet(t)
	for i, cmd := range e.expires {
		got := milliseconds(cmd)
		if late := e.later[i] && got > e.wantMs[i]; got != e.wantMs[i] && !late {
			t.Errorf("%s: key %d expires at %d ms, want %d", e.what, i, got, e.wantMs[i])
			ok = false
		}
	}
	return ok
}

func (e *expectation) replyMet(t *testing.T) bool {
	t.Helper()
	l := luaPlan{Plan: e.plan}
	out, allowed, err := l.parse(e.reply)
	switch {
	case e.otherTime && errors.Is(err, ErrOtherTime):
		return true
	case e.otherTime:
		t.Errorf("%s: error %v, want %v", e.what, err, ErrOtherTime)
	case err != nil:
		t.Errorf("%s: %v", e.what, err)
	case allowed != e.allowed:
		t.Errorf("%s: allowed is %v in Lua, %v in Go", e.what, allowed, e.allowed)
	case !slices.Equal(out, e.decisions):
		t.Errorf("%s:\nLua %+v\nGo  %+v", e.what, out, e.decisions)
	default:
		return true
	}
	return false
}

// milliseconds undoes what go-redis makes of PEXPIRETIME's answer.
func milliseconds(cmd *redis.DurationCmd) int64 {
	if d := cmd.Val(); d == -1 || d == -2 {
		return int64(d)
	}
	return int64(uint64(cmd.Val()) / 1e6) // beyond the year 2262 it is more than a Duration holds
}

// compareStates checks that the keys say what the States say.
func (s *sequence) compareStates(t *testing.T) {
	t.Helper()
	for i, want := range s.states {
		near := s.nowMicros
		if s.Limits()[i].Algorithm == FixedWindow && len(want) > 0 {
			near = want[fixedStart] // the key has the start modulo 2^22 windows only
		}
		l := s.Limits()[i]
		got := s.state(t, i, near)
		if l.Algorithm == Concurrency {
			got, want = sortedSlots(got), sortedSlots(want)
		}
		same := slices.Equal(got, want)
		if l.Algorithm.HasBurst() {
			same = same || sameInterval(got, want, l.WindowMicros)
		}
		if !same {
			t.Errorf("state of %+v at %d: Redis %v, Go %v", s.Limits()[i], s.nowMicros, got, want)
		}
	}
}

// sortedSlots is a concurrency's State in the order of its nonces.
func sortedSlots(s State) State {
	var entries [][]int64
	for e := range slices.Chunk(s, slotLen) {
		entries = append(entries, e)
	}
	slices.SortFunc(entries, slices.Compare)
	return slices.Concat(entries...)
}
