package lease

import (
	"math/rand/v2"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// steady is random traffic at a steady rate, spread over all workers. It returns how many
// requests there were, and how many of them were admitted.
func (m *mesh) steady(random *rand.Rand, aSecond float64, micros int64) (requests, admitted int) {
	for begin := m.now; m.now < begin+micros; requests++ {
		if m.workers[random.IntN(len(m.workers))].request() {
			admitted++
		}
		m.pass(int64(random.ExpFloat64() * second / aSecond))
	}
	return requests, admitted
}

// A bucket of seconds that is far from full costs few calls, the fewer the busier its workers are.
func TestCallsAtRest(t *testing.T) {
	t.Parallel()
	slow := algo.Limit{Algorithm: algo.GCRA, Units: 2000, WindowMicros: second, Burst: 4000}
	fast := algo.Limit{Algorithm: algo.TokenBucket, Units: 20_000, WindowMicros: second}
	for _, tc := range []struct {
		name    string
		limit   algo.Limit
		ttl     int64
		workers int
		aSecond float64
		most    float64 // calls a request
	}{
		{"a sixth of the limit", slow, 500 * millisecond, 1, 318, 0.04},
		{"a shorter lease", slow, 200 * millisecond, 1, 318, 0.04},
		{"near the limit", slow, 200 * millisecond, 1, 1500, 0.04},
		{"busy", fast, 200 * millisecond, 1, 15_000, 0.02},
		{"two workers", slow, 200 * millisecond, 2, 318, 0.05},
		{"four workers", slow, 200 * millisecond, 4, 318, 0.085},
		{"four workers, busy", fast, 200 * millisecond, 4, 15_000, 0.05},
		{
			"leaky bucket",
			algo.Limit{Algorithm: algo.LeakyBucket, Units: 2000, WindowMicros: second, Burst: 4000},
			500 * millisecond, 1, 318, 0.1,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, tc.workers, tc.limit, 0, tc.ttl)
			requests, admitted := m.steady(rand.New(rand.NewPCG(3, 1)), tc.aSecond, 20*second)
			if admitted != requests {
				t.Errorf("%d of %d admitted, want all", admitted, requests)
			}
			if got := float64(m.calls) / float64(requests); got > tc.most {
				t.Errorf("%.3f calls a request, want %v at most", got, tc.most)
			}
		})
	}
}

// An identity that was at rest and meets its limit has 99 % of it in the four seconds that follow.
func TestFloodAfterRest(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 2, 4} {
		limit := algo.Limit{Algorithm: algo.GCRA, Units: 2000, WindowMicros: second, Burst: 4000}
		m := newMesh(t, workers, limit, 0, 200*millisecond)
		random := rand.New(rand.NewPCG(6, 1))
		m.steady(random, 318, 5*second)
		_, admitted := m.steady(random, 5000, 4*second)
		const most = 4000 + 4*2000
		if admitted > most || admitted < most*99/100 {
			t.Errorf("%d workers: %d admitted, want %d to %d", workers, admitted, most*99/100, most)
		}
	}
}

// gauge is the definition of a bucket, counted by when requests went on.
type gauge struct {
	limit *algo.Limit
	level float64
	last  int64
}

func (g *gauge) admit(t *testing.T, now int64) {
	t.Helper()
	drained := float64(now-g.last) * float64(g.limit.Units) / float64(g.limit.WindowMicros)
	g.level, g.last = max(0, g.level-drained)+1, now
	if most := float64(g.limit.Capacity()); g.level > most+0.001 {
		t.Fatalf("the bucket holds %v of %v", g.level, most)
	}
}

// Some workers at rest, with traffic that stops while they hold what they have, and a flood at
// workers that are cold, before that ends: the bucket never holds more than its burst.
func TestFastBucketsNeverOverAdmit(t *testing.T) {
	t.Parallel()
	for round := range uint64(40) {
		random := rand.New(rand.NewPCG(7, round))
		limit := algo.Limit{Algorithm: algo.TokenBucket, Units: 2000 + random.Int64N(5000), WindowMicros: second}
		limit.Burst = 500 + random.Int64N(1500)
		m := newMesh(t, 2+random.IntN(3), limit, 0, 200*millisecond)
		g := gauge{limit: &limit, last: m.now}
		one := func(w *worker) {
			if w.request() {
				g.admit(t, m.now)
			}
		}
		for range 60 {
			aSecond := float64(limit.Units) * (0.1 + random.Float64())
			for begin := m.now; m.now < begin+100*millisecond; {
				one(m.workers[random.IntN(len(m.workers))])
				m.pass(int64(random.ExpFloat64() * second / aSecond))
			}
			m.pass(random.Int64N(limit.RestoreMicros() / 24))
			for range limit.Burst {
				if _, ok := m.take(1); ok {
					g.admit(t, m.now)
				}
			}
			for range 50 {
				for _, w := range m.workers {
					one(w)
				}
			}
			m.pass(limit.RestoreMicros())
		}
	}
}

// What ends a batch early gives it back, so that the bucket holds just what was spent.
func TestBatchesOfBucketsAreGivenBack(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end  func(*Book, *Lease, Charge, int64)
		left int64 // of 2000
	}{
		"the connection is lost": {func(b *Book, _ *Lease, _ Charge, now int64) { b.ReturnAll(now) }, 1999},
		"the configuration ends": {func(b *Book, _ *Lease, _ Charge, now int64) { b.Close(now) }, 1999},
		"another rule rejects what was spent": {
			func(b *Book, l *Lease, c Charge, now int64) { b.ReturnAll(now); b.Unspend(l, c, now) }, 2000,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, 1, algo.Limit{Algorithm: algo.GCRA, Units: 2000, WindowMicros: second}, 0, 200*millisecond)
			w := m.workers[0]
			l := w.book.Of(0, []byte("tag"), &m.limit, w.clock())
			l.Asked(25, 1, w.clock())
			d, allowed := m.take(25)
			w.book.Granted(l, &d, allowed, m.now, w.clock())
			_, charge, ok := w.book.Spend(l, w.clock())
			testenv.Same(t, "that a unit of a batch that came just now is spent", ok, true)
			tc.end(w.book, l, charge, w.clock())
			after, _ := m.take(0)
			testenv.Same(t, "what remains", after.Remaining, tc.left)
			_, _, ok = w.book.Spend(l, w.clock())
			testenv.Same(t, "that a unit is spent after the end", ok, false)
		})
	}
}
