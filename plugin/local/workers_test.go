package local

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

const workers = 8

// inParallel runs work once in each worker, which has a Store of its own.
func inParallel(shared SharedData, opts Options, work func(worker uint64, s *Store)) {
	var group sync.WaitGroup
	for worker := range uint64(workers) {
		group.Go(func() { work(worker, sized(shared, opts)) })
	}
	group.Wait()
}

// At one instant exactly the capacity is admitted, whoever asks.
func TestWorkersAdmitExactlyTheCapacity(t *testing.T) {
	t.Parallel()
	for name, l := range limitsOf(500, hour) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := policy(t, l)
			var admitted atomic.Int64
			inParallel(newMemory(), Options{}, func(_ uint64, s *Store) {
				for range 100 {
					if _, allowed := take(t, s, p, "r|a", t0, 1); allowed {
						admitted.Add(1)
					}
				}
			})
			if got := admitted.Load(); got != p.Limits()[0].Capacity() {
				t.Errorf("%d admitted, want exactly %d", got, p.Limits()[0].Capacity())
			}
		})
	}
}

// What workers charge, refund and are denied adds up to what is left, over
// identities that share pages, with clocks that differ by milliseconds.
func TestWorkersLoseNoChargeAndNoRefund(t *testing.T) {
	t.Parallel()
	tags := []string{"r|a", "r|b", "r|c", "r|d", "r|e"}
	for name, l := range limitsOf(5000, hour) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p, m := policy(t, l), newMemory()
			var used [5]atomic.Int64
			inParallel(m, Options{Pages: 2}, func(worker uint64, s *Store) {
				rng := rand.New(rand.NewPCG(worker, 0))
				out := make([]algo.Decision, 1)
				for range 200 {
					i, cost := rng.IntN(len(tags)), 1+rng.Int64N(3)
					r, err := s.Decide(p, []byte(tags[i]), t0+rng.Int64N(3000), p.Each(cost), out, Charge)
					if err != nil || !r.Allowed {
						t.Errorf("allowed %v, %v", r.Allowed, err)
						return
					}
					used[i].Add(cost)
					if rng.IntN(3) > 0 {
						continue
					}
					used[i].Add(-cost)
					if err := s.RefundEach(p, []byte(tags[i]), r.AtMicros, t0+rng.Int64N(3000), p.Each(cost)); err != nil {
						t.Error(err)
						return
					}
				}
			})
			// A bucket recovers a unit in 720 ms, the first after those 3.
			s := sized(m, Options{Pages: 2})
			for i, tag := range tags {
				out, _ := take(t, s, p, tag, t0+3000, 0)
				if got := p.Limits()[0].Capacity() - out[0].Remaining; got != used[i].Load() {
					t.Errorf("%s: %d in use, want %d", tag, got, used[i].Load())
				}
			}
		})
	}
}

// Two workers that find no page create it once, and both charges count.
func TestTwoWorkersCreateAPage(t *testing.T) {
	t.Parallel()
	p := policy(t, algo.Limit{Algorithm: algo.FixedWindow, Units: 10, WindowMicros: hour})
	m := newMemory()
	first, second := sized(m, Options{}), sized(m, Options{})
	m.beside = func() {
		m.beside = nil
		take(t, second, p, "r|a", t0, 3)
	}
	if out, _ := take(t, first, p, "r|a", t0, 2); out[0].Remaining != 5 {
		t.Errorf("%d remain of 10, want 5", out[0].Remaining)
	}
}

func TestContentionIsBounded(t *testing.T) {
	t.Parallel()
	p := policy(t, algo.Limit{Algorithm: algo.FixedWindow, Units: 10, WindowMicros: hour})
	m := newMemory()
	s := sized(m, Options{})
	take(t, s, p, "r|a", t0, 1)
	m.err, m.gets = ErrCASMismatch, 2*maxRounds+1
	r, err := s.Decide(p, []byte("r|a"), t0, p.Each(1), make([]algo.Decision, 1), Charge)
	testenv.SameError(t, "Decide", err, ErrContended)
	testenv.Same(t, "that it is allowed", r.Allowed, false)
	testenv.SameError(t, "Refund", s.RefundEach(p, []byte("r|a"), t0, t0, p.Each(1)), ErrContended)
	if m.gets != 1 {
		t.Errorf("%d tries, want %d for each of the two", 2*maxRounds+1-m.gets, maxRounds)
	}
	m.err = nil
	if out, _ := take(t, sized(m, Options{}), p, "r|a", t0, 0); out[0].Remaining != 9 {
		t.Errorf("%d remain, want 9: nothing was charged", out[0].Remaining)
	}
}

// Versions wrap after 2^32 writes, past 0.
func TestVersionsWrap(t *testing.T) {
	t.Parallel()
	p := policy(t, algo.Limit{Algorithm: algo.FixedWindow, Units: 100, WindowMicros: hour})
	m := newMemory()
	m.cas = casCreate - 3
	s := sized(m, Options{Pages: 1})
	var remaining []int64
	for range 6 {
		out, _ := take(t, s, p, "r|a", t0, 1)
		remaining = append(remaining, out[0].Remaining)
	}
	if want := []int64{99, 98, 97, 96, 95, 94}; !slices.Equal(remaining, want) {
		t.Errorf("remaining %v, want %v", remaining, want)
	}
}
