package algo

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/redis/go-redis/v9"
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

// stepsPerPolicy is how long one random policy is replayed.
const stepsPerPolicy = 150

// TestDifferential replays random sequences of one limit on both twins.
func TestDifferential(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	for a := FixedWindow; a <= GCRA; a++ {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			r := newRandom(uint64(a))
			for i := range stepsPerAlgorithm(t) / stepsPerPolicy {
				replay(t, client, r, fmt.Sprintf("%s-%d", a, i), []Limit{r.limit(a)})
			}
		})
	}
}

// TestDifferentialSeveralLimits does the same with two to six limits in one
// call, of all algorithms, and with sorted sets in Redis' encoding for large ones.
// https://redis.io/docs/latest/operate/oss_and_stack/management/optimization/memory-optimization/
func TestDifferentialSeveralLimits(t *testing.T) {
	t.Parallel()
	client, r := startRedis(t), newRandom(7)
	if err := client.ConfigSet(ctx, "zset-max-listpack-entries", "0").Err(); err != nil {
		t.Fatal(err)
	}
	for i := range stepsPerAlgorithm(t) / stepsPerPolicy {
		var limits []Limit
		for range 2 + r.IntN(5) {
			l := r.limit(FixedWindow + Algorithm(r.IntN(int(GCRA))))
			if validate(append(limits, l)) == nil {
				limits = append(limits, l)
			}
		}
		replay(t, client, r, fmt.Sprintf("several-%d", i), limits)
	}
}

// lastMicros, in the year 2109, is where the tests' clock is set back: beyond it
// some sums would leave the whole numbers that a double holds.
const lastMicros = 2 * epoch

// sequence is one policy replayed: first in Go, while the same is queued for
// Redis, then all compared.
type sequence struct {
	*luaPolicy
	random
	pipe      redis.Pipeliner
	states    []State
	nowMicros int64
	forward   bool // the clock has never been set back
	nonce     int
	charges   []charge
	expect    []expectation
}

// charge is what can be refunded.
type charge struct {
	atMicros, cost int64
	nonce          string
}

// expectation is what Redis must answer to a step.
type expectation struct {
	what      string
	reply     *redis.Cmd // nil for a refund
	allowed   bool
	decisions []Decision
	expires   []*redis.DurationCmd // PEXPIRETIME of each key, if the clock only went forward
	wantMs    []int64
}

func replay(t *testing.T, client *redis.Client, r random, name string, limits []Limit) {
	t.Helper()
	s := &sequence{
		luaPolicy: newLuaPolicy(t, client, mustPolicy(t, limits...), name),
		random:    r,
		pipe:      client.Pipeline(),
		states:    make([]State, len(limits)),
		nowMicros: epoch + r.Int64N(1e15),
		forward:   true,
	}
	last := make([]Decision, len(limits))
	for range stepsPerPolicy {
		s.advance(last)
		if len(s.charges) > 0 && s.oneIn(8) {
			s.refundOne()
		} else {
			last = s.decideOne()
		}
	}
	if _, err := s.pipe.Exec(ctx); err != nil {
		t.Fatalf("%+v: %v", limits, err)
	}
	for i := range s.expect {
		if !s.expect[i].met(t, s.luaPolicy) {
			t.Fatalf("step %d of %s: %+v", i, name, limits)
		}
	}
	s.compareStates(t)
	if err := client.Del(ctx, s.keys...).Err(); err != nil {
		t.Fatal(err)
	}
}

// advance moves the clock, sometimes back, and drops what Redis would by then
// have expired.
func (s *sequence) advance(last []Decision) {
	i := s.IntN(len(last))
	limit := s.Limits()[i]
	switch {
	case s.nowMicros > lastMicros:
		s.nowMicros = epoch
		s.forward = false
	case s.oneIn(60):
		s.nowMicros = max(s.nowMicros-s.span(1, 2*limit.WindowMicros), epoch)
		s.forward = false
	default:
		s.nowMicros += s.step(&limit, last[i], s.nowMicros)
	}
	for i, st := range s.states {
		if len(st) > 0 && s.nowMicros/1000 > ceilDiv(s.ExpiresAtMicros(i, st), 1000) {
			s.states[i] = st[:0]
			s.pipe.Del(ctx, s.keys[i])
		}
	}
}

func (s *sequence) decideOne() []Decision {
	capacity := int64(MaxUnits)
	for i := range s.Limits() {
		capacity = min(capacity, s.Limits()[i].Capacity())
	}
	cost := s.cost(capacity)
	s.nonce++
	nonce := strconv.Itoa(s.nonce)
	out := make([]Decision, len(s.states))
	allowed := s.Decide(s.states, s.nowMicros, cost, out)
	if allowed && cost > 0 {
		s.charges = append(s.charges, charge{s.nowMicros, cost, nonce})
	}
	e := expectation{
		what:      fmt.Sprintf("cost %d at %d", cost, s.nowMicros),
		reply:     s.decide(s.pipe, s.nowMicros, cost, nonce),
		allowed:   allowed,
		decisions: out,
	}
	s.expectExpiry(&e)
	return out
}

// refundOne gives back one of the last charges.
func (s *sequence) refundOne() {
	i := len(s.charges) - 1 - s.IntN(min(len(s.charges), 4))
	c := s.charges[i]
	s.charges = slices.Delete(s.charges, i, i+1)
	s.Refund(s.states, c.atMicros, s.nowMicros, c.cost)
	s.giveBack(s.pipe, s.nowMicros, c.cost, c.nonce, c.atMicros)
	e := expectation{what: fmt.Sprintf("refund of %+v at %d", c, s.nowMicros)}
	s.expectExpiry(&e)
}

func (s *sequence) expectExpiry(e *expectation) {
	if s.forward {
		for i, st := range s.states {
			e.expires = append(e.expires, s.pipe.PExpireTime(ctx, s.keys[i]))
			e.wantMs = append(e.wantMs, wantExpiry(s.ExpiresAtMicros(i, st)))
		}
	}
	s.expect = append(s.expect, *e)
}

// wantExpiry is PEXPIRETIME's answer: milliseconds, rounded up; -2 for no key.
// https://redis.io/docs/latest/commands/pexpiretime/
func wantExpiry(micros int64) int64 {
	if micros == 0 {
		return -2
	}
	return ceilDiv(micros, 1000)
}

func (e *expectation) met(t *testing.T, l *luaPolicy) bool {
	t.Helper()
	ok := true
	if e.reply != nil {
		out, allowed, err := l.parse(e.reply)
		if err != nil || allowed != e.allowed || !slices.Equal(out, e.decisions) {
			t.Errorf("%s:\nLua %v %+v %v\nGo  %v %+v", e.what, allowed, out, err, e.allowed, e.decisions)
			ok = false
		}
	}
	for i, cmd := range e.expires {
		if got := milliseconds(cmd); got != e.wantMs[i] {
			t.Errorf("%s: key %d expires at %d ms, want %d", e.what, i, got, e.wantMs[i])
			ok = false
		}
	}
	return ok
}

// milliseconds undoes what go-redis makes of PEXPIRETIME's answer.
func milliseconds(cmd *redis.DurationCmd) int64 {
	if d := cmd.Val(); d < 0 {
		return int64(d)
	}
	return cmd.Val().Milliseconds()
}

// compareStates checks that the keys say what the States say.
func (s *sequence) compareStates(t *testing.T) {
	t.Helper()
	for i, want := range s.states {
		if got := s.state(t, i, s.nowMicros); !slices.Equal(got, want) {
			t.Errorf("state of %+v at %d: Redis %v, Go %v", s.Limits()[i], s.nowMicros, got, want)
		}
	}
}
