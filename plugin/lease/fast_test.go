package lease

import (
	"math/rand/v2"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
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
		{"a sixth of the limit", slow, 500 * millisecond, 1, 318, 0.1},
		{"a shorter lease", slow, 200 * millisecond, 1, 318, 0.1},
		{"near the limit", slow, 200 * millisecond, 1, 1500, 0.04},
		{"busy", fast, 200 * millisecond, 1, 15_000, 0.02},
		{"two workers", slow, 200 * millisecond, 2, 318, 0.2},
		{"four workers", slow, 200 * millisecond, 4, 318, 0.3},
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

// What fills the bucket for leases is lost once to an identity that then meets its limit: in
// fifteen seconds it has 99 % of it all the same.
func TestFloodAfterRest(t *testing.T) {
	t.Parallel()
	for _, workers := range []int{1, 2, 4} {
		limit := algo.Limit{Algorithm: algo.GCRA, Units: 2000, WindowMicros: second, Burst: 4000}
		m := newMesh(t, workers, limit, 0, 200*millisecond)
		random := rand.New(rand.NewPCG(6, 1))
		m.steady(random, 318, 5*second)
		_, admitted := m.steady(random, 5000, 15*second)
		const most = 4000 + 15*2000
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
			m.pass(random.Int64N(limit.RestoreMicros() / restShare))
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

// Nothing of a batch is given back, whatever ends it.
func TestBatchesLapse(t *testing.T) {
	t.Parallel()
	const now = 100 * second
	for name, end := range map[string]func(*Book, *Lease, Charge){
		"its time is over":                func(b *Book, _ *Lease, _ Charge) { b.Expire(now + second) },
		"the connection is lost":          func(b *Book, _ *Lease, _ Charge) { b.ReturnAll(now) },
		"the configuration ends":          func(b *Book, _ *Lease, _ Charge) { b.Close(now) },
		"another rule rejects a last one": func(b *Book, l *Lease, c Charge) { b.ReturnAll(now); b.Unspend(l, c, now) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, 1, algo.Limit{Algorithm: algo.GCRA, Units: 2000, WindowMicros: second}, 0, 200*millisecond)
			book := m.workers[0].book
			l := book.Of(0, []byte("tag"), &m.limit, now)
			l.Asked(Order{Units: 5, Padding: 20}, 1, now)
			book.Granted(l, &algo.Decision{Allowed: true, Remaining: 1900, ResetAfterMicros: 25 * 500}, true, m.now, now)
			_, charge, ok := book.Spend(l, now)
			if !ok {
				t.Fatal("no unit of a batch that came just now")
			}
			end(book, l, charge)
			if m.calls != 0 {
				t.Errorf("%d calls, want none", m.calls)
			}
			if _, _, ok := book.Spend(l, now); ok {
				t.Error("a unit was spent after its end")
			}
		})
	}
}
