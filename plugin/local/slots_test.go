package local

import (
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// slotLimits are one of requests, and one of slots.
var slotLimits = []algo.Limit{
	{Algorithm: algo.FixedWindow, Units: 1000, WindowMicros: hour},
	{Algorithm: algo.Concurrency, Units: 5, TTLMicros: 30e6},
}

// slotWorker is one worker and what it holds of the identity r|a.
type slotWorker struct {
	t     *testing.T
	store *Store
	plan  *algo.Plan
	held  int64
}

func (w *slotWorker) take(now, slots int64) bool {
	w.t.Helper()
	w.store.Occupying(w.held)
	r, err := w.store.Decide(w.plan, []byte("r|a"), now, []int64{1, slots}, make([]algo.Decision, 2), Charge)
	testenv.OK(w.t, err)
	if r.Allowed {
		w.held += slots
	}
	return r.Allowed
}

func (w *slotWorker) hold(now, held int64) {
	w.t.Helper()
	w.held = held
	testenv.OK(w.t, w.store.Occupy(w.plan, []byte("r|a"), now, held))
}

// TestSlotsOfTwoWorkers walks through what the workers of one Envoy do.
func TestSlotsOfTwoWorkers(t *testing.T) {
	t.Parallel()
	shared, p := newMemory(), policy(t, slotLimits...)
	a := &slotWorker{t: t, store: sized(shared, Options{}), plan: p}
	b := &slotWorker{t: t, store: sized(shared, Options{}), plan: p}
	const later, end = t0 + 29e6, t0 + 31e6
	for _, step := range []struct {
		what    string
		w       *slotWorker
		at      int64
		take    int64 // 0: it holds so many from now on
		hold    int64
		allowed bool
	}{
		{what: "3 of 5", w: a, at: t0, take: 3, allowed: true},
		{what: "3 of 2", w: b, at: t0, take: 3},
		{what: "2 of 2", w: b, at: t0, take: 2, allowed: true},
		{what: "1 of 0", w: a, at: t0, take: 1},
		{w: a, at: t0, hold: 2},
		{what: "1 of 1", w: b, at: t0, take: 1, allowed: true},
		{w: b, at: t0, hold: 0},
		{w: b, at: t0, hold: 0}, // twice gives no credit
		{what: "4 of 3", w: b, at: t0, take: 4},
		{what: "3 of 3", w: b, at: t0, take: 3, allowed: true},
		{w: a, at: later, hold: 2}, // both live on; b has a request that is not renewed
		{what: "a renewed, b died: 4 of 3", w: a, at: end, take: 4},
		{what: "3 of 3 that were b's", w: a, at: end, take: 3, allowed: true},
		{what: "1 of 0, again", w: a, at: end, take: 1},
		{w: b, at: end, hold: 3}, // b was not dead, and says so, above the limit
		{w: a, at: end, hold: 1},
		{what: "2 of 1", w: a, at: end, take: 2},
		{what: "1 of 1, then", w: a, at: end, take: 1, allowed: true},
	} {
		if step.take == 0 {
			step.w.hold(step.at, step.hold)
		} else if got := step.w.take(step.at, step.take); got != step.allowed {
			t.Errorf("%s: admitted %v, want %v", step.what, got, step.allowed)
		}
	}
}

// TestEvictedSlots: a worker says anew what it holds with each call.
func TestEvictedSlots(t *testing.T) {
	t.Parallel()
	p := policy(t, slotLimits...)
	a := &slotWorker{t: t, store: newStore(), plan: p}
	if !a.take(t0, 4) {
		t.Fatal("refused")
	}
	forgetful := newMemory()
	a.store.shared, a.store.secret = forgetful, nil
	a.hold(t0, 4)
	b := &slotWorker{t: t, store: sized(forgetful, Options{}), plan: p}
	if b.take(t0, 2) {
		t.Error("6 of 5 are held by two")
	}
	if a.take(t0, 2) {
		t.Error("6 of 5 are held")
	}
	if !a.take(t0, 1) {
		t.Error("5 of 5 cannot be held")
	}
	a.hold(t0, 0)
	if !a.take(t0, 5) {
		t.Error("not all is given back")
	}
}
