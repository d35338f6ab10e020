package local

import (
	"testing"

	"github.com/sluiceproxy/sluice/algo"
)

func slotPlan(t *testing.T, limit int64) *algo.Plan {
	t.Helper()
	p, err := algo.NewPlan([]algo.Limit{
		{Algorithm: algo.FixedWindow, Units: 1000, WindowMicros: 3600e6},
		{Algorithm: algo.Concurrency, Units: limit, TTLMicros: 30e6},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
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
	out := make([]algo.Decision, 2)
	w.store.Occupying(w.held)
	_, allowed, err := w.store.TakeEach(w.plan, []byte("r|a"), now, []int64{1, slots}, out)
	if err != nil {
		w.t.Fatal(err)
	}
	if allowed {
		w.held += slots
	}
	return allowed
}

func (w *slotWorker) hold(now, held int64) {
	w.t.Helper()
	w.held = held
	if err := w.store.Occupy(w.plan, []byte("r|a"), now, held); err != nil {
		w.t.Fatal(err)
	}
}

// TestSlotsOfTwoWorkers walks through what the workers of one Envoy do.
func TestSlotsOfTwoWorkers(t *testing.T) {
	t.Parallel()
	shared := newMemory()
	p := slotPlan(t, 5)
	a := &slotWorker{t: t, store: sized(shared, chance{}, Options{}), plan: p}
	b := &slotWorker{t: t, store: sized(shared, chance{}, Options{}), plan: p}
	now := int64(t0)
	want := func(what string, got, want bool) {
		t.Helper()
		if got != want {
			t.Errorf("%s: admitted %v, want %v", what, got, want)
		}
	}
	want("3 of 5", a.take(now, 3), true)
	want("3 of 2", b.take(now, 3), false)
	want("2 of 2", b.take(now, 2), true)
	want("1 of 0", a.take(now, 1), false)
	a.hold(now, 2)
	want("1 of 1", b.take(now, 1), true)
	b.hold(now, 0)
	b.hold(now, 0) // twice gives no credit
	want("4 of 3", b.take(now, 4), false)
	want("3 of 3", b.take(now, 3), true)

	now += 29e6 // both live on; b has a request that is not renewed
	a.hold(now, 2)
	now += 2e6
	want("a renewed, b died: 4 of 3", a.take(now, 4), false)
	want("3 of 3 that were b's", a.take(now, 3), true)
	b.held = 3
	want("b was not dead, and says so", a.take(now, 1), false)
	b.hold(now, 3) // above the limit
	a.hold(now, 1)
	want("4 of 1", a.take(now, 2), false)
	want("1 of 1", a.take(now, 1), true)
}

// TestEvictedSlots: a worker says anew what it holds with each call.
func TestEvictedSlots(t *testing.T) {
	t.Parallel()
	p := slotPlan(t, 5)
	a := &slotWorker{t: t, store: sized(newMemory(), chance{}, Options{}), plan: p}
	if !a.take(t0, 4) {
		t.Fatal("refused")
	}
	a.store.shared = newMemory() // it has forgotten all
	a.store.secret = nil
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
