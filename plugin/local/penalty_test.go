package local

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// penalized is a plan of limits under a penalty: three strikes within a minute block
// for five minutes, then for an hour.
func penalized(t testing.TB, limits ...algo.Limit) *algo.Plan {
	t.Helper()
	p, err := algo.NewPlanWithTerms(limits, algo.Terms{
		Penalty: &algo.Penalty{After: 3, WithinMicros: minute, ForMicros: []int64{5 * minute, hour}},
	})
	testenv.OK(t, err)
	return p
}

var twoAnHour = algo.Limit{Algorithm: algo.FixedWindow, FromFirstRequest: true, Units: 2, WindowMicros: hour}

// rule is Store.Decide of a cost of 1 with nothing that can go wrong.
func rule(t testing.TB, s *Store, p *algo.Plan, tag string, now int64) algo.Ruling {
	t.Helper()
	r, err := s.Decide(p, []byte(tag), now, p.Each(1), make([]algo.Decision, len(p.Limits())), Obey)
	testenv.OK(t, err)
	return r
}

// The strikes of all workers count, next to the state of the limits, and stay through
// refunds, other tiers, and calls that do not obey the penalty.
func TestPenaltyOfAllWorkers(t *testing.T) {
	t.Parallel()
	shared, now := newMemory(), 1000*hour
	a, b := sized(shared, Options{}), sized(shared, Options{})
	p, tier := penalized(t, twoAnHour), penalized(t, algo.Limit{Algorithm: algo.GCRA, Units: 9, WindowMicros: second})
	none := penalized(t)
	for n, want := range []bool{true, true, false, false} {
		store := []*Store{a, b}[n%2]
		r, what := rule(t, store, p, "r|x", now), fmt.Sprintf("request %d: ", n+1)
		testenv.Same(t, what+"that it is allowed", r.Allowed, want)
		testenv.Same(t, what+"what decides", r.By, algo.ByLimits)
		testenv.Same(t, what+"the block that it earns", r.EarnedMicros, 0)
	}
	if err := a.RefundEach(p, []byte("r|x"), now, now, p.Each(1)); err != nil {
		t.Fatal(err)
	}
	if _, allowed := take(t, a, p, "r|x", now, 1); !allowed { // as in mode local: no penalty
		t.Fatal("the refund is lost")
	}
	if r := rule(t, b, tier, "r|x", now); !r.Allowed {
		t.Fatalf("another tier: %+v", r)
	}
	if r := rule(t, b, p, "r|x", now+1); r.EarnedMicros != 5*minute || r.Allowed {
		t.Fatalf("the third strike: %+v", r)
	}
	testenv.Same(t, "what it has consumed, so that no other drives it out", b.identity.consumed, 255)
	for _, plan := range []*algo.Plan{p, tier, none} {
		if r := rule(t, a, plan, "r|x", now+2); r.By != algo.ByPenalty || r.LeftMicros != 5*minute-1 {
			t.Errorf("in every tier: %+v", r)
		}
	}
	if r := rule(t, a, none, "r|y", now); !r.Allowed {
		t.Errorf("another identity: %+v", r)
	}
	if r := rule(t, a, tier, "r|x", now+1+5*minute); !r.Allowed {
		t.Errorf("when it is over: %+v", r)
	}
}

// A clock that was set back blocks no client for longer than the block says.
func TestPenaltyOfAClockSetBack(t *testing.T) {
	t.Parallel()
	s, now := newStore(), 1000*hour
	p := penalized(t, algo.Limit{Algorithm: algo.FixedWindow, WindowMicros: second})
	for range 3 {
		rule(t, s, p, "r|x", now)
	}
	now -= 500 * hour
	for _, step := range []struct{ after, left int64 }{{0, 5 * minute}, {minute, 4 * minute}, {4*minute - 1, 1}, {1, 0}} {
		now += step.after
		if r := rule(t, s, p, "r|x", now); r.LeftMicros != step.left {
			t.Errorf("%+v, want %d us left", r, step.left)
		}
	}
}

// Random requests of some identities agree with the penalty kept apart.
func TestPenaltyAgrees(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(5, 5))
	s, now := sized(newMemory(), Options{Pages: 2}), 1000*hour
	p := penalized(t, twoAnHour)
	penalty := p.Terms().Penalty
	states, penalties := map[string][]algo.State{}, map[string]algo.State{}
	for range 5000 {
		now += random.Int64N(minute)
		tag := string(rune('a' + random.IntN(5)))
		if states[tag] == nil {
			states[tag] = make([]algo.State, 1)
		}
		want := algo.Ruling{AtMicros: now, LeftMicros: penalty.LeftMicros(penalties[tag], now)}
		if want.LeftMicros > 0 {
			want.By = algo.ByPenalty
		} else if want.Allowed = p.Decide(states[tag], now, p.Each(1), make([]algo.Decision, 1)); !want.Allowed {
			penalties[tag], want.EarnedMicros = penalty.Strike(penalties[tag], now)
		}
		if got := rule(t, s, p, tag, now); got != want {
			t.Fatalf("%s at %d: %+v, want %+v", tag, now, got, want)
		}
	}
}
