package algo

import (
	"fmt"
	"slices"
	"testing"
)

// TestRetryAfterIsExact: at now + retry_after the same cost is admitted, and a
// microsecond before it is not.
func TestRetryAfterIsExact(t *testing.T) {
	t.Parallel()
	for a := FixedWindow; a <= GCRA; a++ {
		r := newRandom(300 + uint64(a))
		checked := 0
		for range 300 {
			l := r.limit(a)
			p, states, out := mustPlan(t, l), make([]State, 1), make([]Decision, 1)
			now := epoch + r.Int64N(1e15)
			for range 100 {
				now += r.step(&l, out[0], now)
				cost := r.cost(l.Capacity())
				if decide(p, states, now, cost, out) || out[0].RetryAfterMicros == Never {
					continue
				}
				checked++
				retry := out[0].RetryAfterMicros
				what := fmt.Sprintf("%+v: cost %d at %d, state %v: retry_after %d", l, cost, now, states[0], retry)
				switch {
				case retry < 1:
					t.Fatalf("%s, want 1 at least", what)
				case !peek(p, states, now+retry, cost).Allowed:
					t.Fatalf("%s is too early", what)
				case peek(p, states, now+retry-1, cost).Allowed:
					t.Fatalf("%s is too late", what)
				}
			}
		}
		if checked < 1000 {
			t.Errorf("%s: only %d retries to check", a, checked)
		}
	}
}

// peek is what a plan of one limit decides on a copy of its state.
func peek(p *Plan, states []State, nowMicros, cost int64) Decision {
	out := make([]Decision, 1)
	decide(p, []State{slices.Clone(states[0])}, nowMicros, cost, out)
	return out[0]
}

// TestResetAfterIsExact: reset_after from now, a limit whose state is left alone
// has its whole capacity, and a microsecond before it says so too.
func TestResetAfterIsExact(t *testing.T) {
	t.Parallel()
	for a := FixedWindow; a <= GCRA; a++ {
		r := newRandom(400 + uint64(a))
		for range 300 {
			l := r.limit(a)
			p, states, out := mustPlan(t, l), make([]State, 1), make([]Decision, 1)
			now := epoch + r.Int64N(1e15)
			for range 50 {
				now += r.step(&l, out[0], now)
				decide(p, states, now, r.cost(l.Capacity()), out)
				reset := out[0].ResetAfterMicros
				if got := peek(p, states, now+reset, 0).ResetAfterMicros; got != 0 {
					t.Fatalf("%+v, state %v: reset_after %d at %d, then %d more", l, states[0], reset, now, got)
				}
				if reset > 0 && peek(p, states, now+reset-1, 0).ResetAfterMicros != 1 {
					t.Fatalf("%+v, state %v: reset_after %d at %d is too long", l, states[0], reset, now)
				}
				if want := now + reset; reset > 0 && p.ExpiresAtMicros(0, states[0]) != want {
					t.Fatalf("%+v, state %v: expires at %d, want %d", l, states[0], p.ExpiresAtMicros(0, states[0]), want)
				}
			}
		}
	}
}

// TestExpiredStateIsNoState: a state that has expired decides like none, so that
// it does not matter when Redis removes the key.
func TestExpiredStateIsNoState(t *testing.T) {
	t.Parallel()
	for a := FixedWindow; a <= GCRA; a++ {
		r := newRandom(500 + uint64(a))
		for range 600 {
			l := r.limit(a)
			p, states, out := mustPlan(t, l), make([]State, 1), make([]Decision, 1)
			now := epoch + r.Int64N(1e15)
			for range 3 {
				decide(p, states, now, r.cost(l.Capacity()), out)
				now += r.span(0, l.WindowMicros)
			}
			if len(states[0]) == 0 {
				continue
			}
			now = p.ExpiresAtMicros(0, states[0]) + r.span(0, MaxWindowMicros)
			cost := r.cost(l.Capacity())
			old, fresh := peek(p, states, now, cost), peek(p, make([]State, 1), now, cost)
			if old != fresh {
				t.Fatalf("%+v, state %v at %d: %+v, want %+v", l, states[0], now, old, fresh)
			}
		}
	}
}
