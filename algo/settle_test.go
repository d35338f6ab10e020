package algo

import (
	"testing"
)

// reservation is one charge and what it was worth in the end.
type reservation struct{ at, reserved, worth int64 }

// reservations draws charges that fit together, whatever they are worth, within
// some time.
func (r random) reservations(l *Limit, n int, span int64) []reservation {
	most := min(l.Capacity()/int64(2*n), MaxCost)
	now := epoch + r.Int64N(1e15)
	all := make([]reservation, n)
	for i := range all {
		now += 1 + r.Int64N(span/int64(n))
		all[i] = reservation{now, r.span(1, most), r.Int64N(2*most + 1)}
	}
	return all
}

// TestSettledIsCharged: what was reserved, then settled in any order and however
// late, is in the end what would have been charged for its worth at its time.
func TestSettledIsCharged(t *testing.T) {
	t.Parallel()
	for _, a := range []Algorithm{FixedWindow, SlidingWindowLog, SlidingWindowCounter} {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			r := newRandom(900 + uint64(a))
			for range 500 {
				l := r.limit(a)
				l.Units = r.span(100, 1e6)
				l.FromFirstRequest = false // a window's start depends on what is left of the first request
				const n = 10
				all := r.reservations(&l, n, max(l.WindowMicros, 100))
				p := mustPlan(t, l)
				settled, charged, out := make([]State, 1), make([]State, 1), make([]Decision, 1)
				for _, c := range all {
					if !decide(p, settled, c.at, c.reserved, out) {
						t.Fatalf("%+v refuses %+v", p.Limits(), c)
					}
					if !decide(p, charged, c.at, c.worth, out) {
						t.Fatalf("%+v refuses what %+v is worth", p.Limits(), c)
					}
				}
				now := all[len(all)-1].at
				for _, i := range r.Perm(len(all)) {
					now += r.Int64N(p.Limits()[0].WindowMicros / 5)
					refund(p, settled, all[i].at, now, all[i].reserved-all[i].worth)
				}
				for range 10 {
					decide(p, settled, now, 0, out)
					got := out[0]
					decide(p, charged, now, 0, out)
					if got != out[0] {
						t.Fatalf("%+v: %+v at %d: settled %+v, charged %+v", p.Limits(), all, now, got, out[0])
					}
					now += r.Int64N(p.Limits()[0].WindowMicros / 2)
				}
			}
		})
	}
}

// TestSettledBuckets: a bucket that is never empty between charge and settlement
// holds exactly what its requests were worth.
func TestSettledBuckets(t *testing.T) {
	t.Parallel()
	for _, a := range []Algorithm{TokenBucket, LeakyBucket, GCRA} {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			r := newRandom(950 + uint64(a))
			for range 500 {
				l := Limit{Algorithm: a, Units: 1000, WindowMicros: 1e9, Burst: r.span(1000, 10_000)}
				p := mustPlan(t, l)
				state, out := make([]State, 1), make([]Decision, 1)
				const n = 10
				all := r.reservations(&l, n, 1e6)
				busy, worth := int64(100), int64(100)
				decide(p, state, all[0].at-1, busy, out)
				for _, c := range all {
					decide(p, state, c.at, c.reserved, out)
					worth += c.worth
				}
				now := all[n-1].at
				for _, i := range r.Perm(n) {
					now += r.Int64N(1e6)
					refund(p, state, all[i].at, now, all[i].reserved-all[i].worth)
				}
				decide(p, state, now, 0, out)
				if want := worth*1e6 - (now - all[0].at + 1); out[0].ResetAfterMicros != want {
					t.Fatalf("%+v: %+v: drained in %d us, want %d", l, all, out[0].ResetAfterMicros, want)
				}
			}
		})
	}
}

// TestDebtIsBounded: whatever is settled, in any order, late, twice, with the clock
// set back, at other sizes: the debt is one capacity on top of the capacity at most,
// and has gone when both have passed.
func TestDebtIsBounded(t *testing.T) {
	t.Parallel()
	for _, a := range Algorithms() {
		t.Run(a.String(), func(t *testing.T) {
			t.Parallel()
			r := newRandom(970 + uint64(a))
			for range 300 {
				l := r.limit(a)
				p, state, out := mustPlan(t, l), make([]State, 1), make([]Decision, 1)
				now := epoch + r.Int64N(1e15)
				for range 30 {
					now += r.span(0, l.WindowMicros) - r.span(0, l.WindowMicros/10)
					charged := now - r.span(0, l.WindowMicros)
					refund(p, state, charged, now, r.difference(r.cost(l.Capacity()), l.Capacity()))
					decide(p, state, now, 0, out)
					checkSense(t, &l, out[0])
					if most := 2 * max(l.RestoreMicros(), l.WindowMicros); out[0].ResetAfterMicros > most+most/1000+1 {
						t.Fatalf("%+v: %+v, more than %d", l, out[0], most)
					}
				}
				now += 3 * max(l.RestoreMicros(), l.WindowMicros)
				if decide(p, state, now, 0, out); out[0].Remaining != l.Capacity() {
					t.Fatalf("%+v: %+v in the end: %v", l, out[0], state)
				}
			}
		})
	}
}

// TestSettlementOfWhatWasLost: the store has lost the charge. Nothing is given back;
// what is owed is charged at its time.
func TestSettlementOfWhatWasLost(t *testing.T) {
	t.Parallel()
	client := startRedis(t)
	w, now := newTwins(t, onRedis(client), mustPlan(t, everyLimit...), "lost"), int64(epoch+200e6)
	for _, cost := range []int64{2, -3} {
		w.refund(t, now-1, now, cost)
		for i, limit := range w.limits {
			exists := client.Exists(ctx, w.keys[i]).Val() == 1
			if want := cost < 0 && !limit.Queue; exists != want || len(w.states[i]) > 0 != want {
				t.Errorf("%d of %+v: Redis has state: %v, Go %v, want %v", cost, limit, exists, w.states[i], want)
			}
		}
	}
	w.decide(t, now, 0)
}
