package local

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// The store decides exactly as the algorithms do on states that are never
// encoded, never expire and are never evicted.
func TestStoreEqualsTheAlgorithms(t *testing.T) {
	t.Parallel()
	policies := map[string]*algo.Plan{}
	for name, l := range limitsOf(7, second) {
		policies[name] = policy(t, l)
	}
	all := limitsOf(9, minute)
	policies["three at once"] = policy(t, limitsOf(5, second)["gcra"], all["sliding_window_log"],
		all["fixed_window first"])
	policies["four at once"] = policy(t, limitsOf(20, hour)["sliding_window_counter5"], all["token_bucket"],
		all["leaky_bucket"], all["fixed_window"])
	for name, p := range policies {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for seed := range uint64(20) {
				rng := rand.New(rand.NewPCG(seed, 0))
				s, statesOf := sized(newMemory(), Options{Pages: 3}), map[string][]algo.State{}
				got, want := make([]algo.Decision, len(p.Limits())), make([]algo.Decision, len(p.Limits()))
				window := p.Limits()[0].WindowMicros
				now := t0
				for step := range 500 {
					now += rng.Int64N(window) >> rng.IntN(16)
					tag, cost := fmt.Sprint("rule|", rng.IntN(20)), rng.Int64N(4)
					if statesOf[tag] == nil {
						statesOf[tag] = make([]algo.State, len(p.Limits()))
					}
					states := statesOf[tag]
					r, err := s.Decide(p, []byte(tag), now, p.Each(cost), got, Charge)
					if err != nil || r.AtMicros != now {
						t.Fatalf("step %d: decided at %d, not %d: %v", step, r.AtMicros, now, err)
					}
					p.Rebase(states, now)
					if p.Decide(states, now, p.Each(cost), want) != r.Allowed || !slices.Equal(got, want) {
						t.Fatalf("step %d, cost %d:\ngot  %+v\nwant %+v", step, cost, got, want)
					}
					if r.Allowed && rng.IntN(4) == 0 {
						now += rng.Int64N(window / 4)
						if err := s.RefundEach(p, []byte(tag), r.AtMicros, now, p.Each(cost)); err != nil {
							t.Fatal(err)
						}
						p.Refund(states, r.AtMicros, now, p.Each(cost))
					}
				}
				if s.Evictions() != 0 {
					t.Errorf("%d evictions though all has room", s.Evictions())
				}
			}
		})
	}
}

func TestDeniedAndFreeTakesWriteNothing(t *testing.T) {
	t.Parallel()
	m := newMemory()
	s := sized(m, Options{})
	p := policy(t, algo.Limit{Algorithm: algo.GCRA, Units: 1, WindowMicros: minute})
	take(t, s, p, "r|a", t0, 0)
	if len(m.data) != 1 { // the seed
		t.Error("a cost of 0 was written")
	}
	take(t, s, p, "r|a", t0, 1)
	before := m.cas
	if _, allowed := take(t, s, p, "r|a", t0+1, 1); allowed || m.cas != before {
		t.Errorf("allowed %v, %d writes; want a denial that writes nothing", allowed, m.cas-before)
	}
}

func TestRefund(t *testing.T) {
	t.Parallel()
	for name, l := range limitsOf(3, minute) {
		p := policy(t, l)
		s := newStore()
		if err := s.RefundEach(p, []byte("r|a"), t0, t0, p.Each(1)); err != nil {
			t.Fatalf("%s: refund of what was never charged: %v", name, err)
		}
		fresh, _ := take(t, s, p, "r|a", t0, 0)
		capacity := fresh[0].Remaining
		if _, allowed := take(t, s, p, "r|a", t0, capacity); !allowed {
			t.Fatalf("%s: a full capacity of %d is denied", name, capacity)
		}
		if err := s.RefundEach(p, []byte("r|a"), t0, t0, p.Each(capacity)); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, _ := take(t, s, p, "r|a", t0, 0); !slices.Equal(got, fresh) {
			t.Errorf("%s: after the refund %+v, want %+v", name, got, fresh)
		}
	}
}

// What is owed is charged whether there is room or not, even of an identity that the
// store knows nothing of any more. It drives out no identity that has used more.
func TestRefundOfLessThanNothing(t *testing.T) {
	t.Parallel()
	for name, l := range limitsOf(3, minute) {
		p, s := policy(t, l), newStore()
		fresh, _ := take(t, s, p, "r|a", t0, 0)
		capacity := fresh[0].Remaining
		for _, owed := range []int64{capacity - 1, 2} {
			if err := s.RefundEach(p, []byte("r|a"), t0, t0, []int64{-owed}); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		got, allowed := take(t, s, p, "r|a", t0, 1)
		if l.Queue { // takes nothing
			if !allowed {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		testenv.Same(t, name+": that it is allowed", allowed, false)
		testenv.Same(t, name+": what remains", got[0].Remaining, 0)
		testenv.Within(t, name+": the wait", got[0].RetryAfterMicros, 1, math.MaxInt64)
		testenv.Same(t, name+": what it has consumed", s.identity.consumed, 255)
		if err := s.RefundEach(p, []byte("r|a"), t0, t0, []int64{capacity + 1}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got, _ := take(t, s, p, "r|a", t0, 0); !slices.Equal(got, fresh) {
			t.Errorf("%s: after the refund %+v, want %+v", name, got, fresh)
		}
	}
}

// A worker that is late by less than the grace decides at the time of the
// worker before it; one whose clock was set back further is believed.
func TestALateWorker(t *testing.T) {
	t.Parallel()
	for name, l := range limitsOf(10, second) {
		p := policy(t, l)
		s := newStore()
		boundary := t0 + second // t0 is a whole second: a window begins
		take(t, s, p, "r|a", boundary, 1)
		want, _ := take(t, s, p, "r|a", boundary, 0)

		out := make([]algo.Decision, 1)
		r, err := s.Decide(p, []byte("r|a"), boundary-1000, p.Each(0), out, Charge)
		testenv.SameError(t, name+": 1 ms late", err, nil)
		testenv.Same(t, name+": the time, 1 ms late", r.AtMicros, boundary)
		testenv.Same(t, name+": the decision, 1 ms late", out[0], want[0])
		back := boundary - graceMicros
		if r, err = s.Decide(p, []byte("r|a"), back, p.Each(0), out, Charge); err != nil || r.AtMicros != back {
			t.Errorf("%s: clock set back: at %d, want %d (%v)", name, r.AtMicros, back, err)
		}
	}
}

func TestHostErrorsAreReturned(t *testing.T) {
	t.Parallel()
	p := policy(t, algo.Limit{Algorithm: algo.GCRA, Units: 10, WindowMicros: minute})
	broken := errors.New("broken")
	for _, c := range []struct{ gets, sets int }{{0, 9}, {9, 0}} {
		m := newMemory()
		s := sized(m, Options{})
		take(t, s, p, "r|a", t0, 1)
		m.err, m.gets, m.sets = broken, c.gets, c.sets
		r, err := s.Decide(p, []byte("r|a"), t0, p.Each(1), make([]algo.Decision, 1), Charge)
		testenv.SameError(t, fmt.Sprintf("%+v: Decide", c), err, broken)
		testenv.Same(t, "that it is allowed", r.Allowed, false)
		m.gets, m.sets = c.gets, c.sets
		testenv.SameError(t, fmt.Sprintf("%+v: Refund", c), s.RefundEach(p, []byte("r|a"), t0, t0, p.Each(1)), broken)
	}
}
