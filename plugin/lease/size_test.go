package lease

import (
	"math/rand/v2"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// sharp are limits whose leases sharpen, with windows of ten times the lease's time.
var sharp = []struct {
	name  string
	limit algo.Limit
}{
	{"fixed window", algo.Limit{Algorithm: algo.FixedWindow, Units: 2000, WindowMicros: 2 * second}},
	{
		"fixed window from the first request",
		algo.Limit{Algorithm: algo.FixedWindow, Units: 2000, WindowMicros: 2 * second, FromFirstRequest: true},
	},
	{"gcra", algo.Limit{Algorithm: algo.GCRA, Units: 2000, WindowMicros: 2 * second}},
	{
		"token bucket, small burst",
		algo.Limit{Algorithm: algo.TokenBucket, Units: 2000, WindowMicros: 2 * second, Burst: 200},
	},
	{
		"leaky bucket, large burst",
		algo.Limit{Algorithm: algo.LeakyBucket, Units: 2000, WindowMicros: 2 * second, Burst: 6000},
	},
}

// least returns what a limit admits of a demand that exceeds it, from its first request on.
func least(l *algo.Limit, micros int64) int64 {
	if !l.Algorithm.HasBurst() {
		return l.Units * (micros / l.WindowMicros)
	}
	return l.Capacity() + l.Units*micros/l.WindowMicros
}

// While more is wanted than a limit admits, four workers whose leases sharpen admit at
// least 99 % of it, and never more.
func TestSharpenedUnderPressure(t *testing.T) {
	t.Parallel()
	const workers, duration = 4, 20 * second
	for _, tc := range sharp {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, workers, tc.limit, 0, 200*millisecond)
			m.now -= m.now % tc.limit.WindowMicros
			random := rand.New(rand.NewPCG(3, 1))
			begin, admitted := m.now, int64(0)
			for m.now < begin+duration {
				if m.workers[random.IntN(workers)].request() {
					admitted++
				}
				m.pass(random.Int64N(800)) // 2,500 a second
			}
			most := least(&tc.limit, duration)
			if tc.limit.FromFirstRequest {
				most += tc.limit.Units // the last window may have just begun
			}
			if admitted > most {
				t.Errorf("%d were admitted, want %d at most", admitted, most)
			}
			if want := least(&tc.limit, duration-tc.limit.WindowMicros/10) * 99 / 100; admitted < want {
				t.Errorf("%d were admitted, want %d at least", admitted, want)
			}
			t.Logf("%d admitted of %d, %d calls", admitted, most, m.calls)
		})
	}
}

// A bucket never holds more than its burst, counted by when requests went on, whatever
// the workers' traffic.
func TestSharpenedBucketsNeverOverAdmit(t *testing.T) {
	t.Parallel()
	for round := range uint64(20) {
		random := rand.New(rand.NewPCG(4, round))
		limit := algo.Limit{Algorithm: algo.GCRA, Units: 1000, WindowMicros: second, Burst: 1 + random.Int64N(5000)}
		m := newMesh(t, 4, limit, 0, 200*millisecond)
		g := gauge{limit: &limit, last: m.now}
		for begin := m.now; m.now < begin+20*second; {
			if m.workers[random.IntN(4)].request() {
				g.admit(t, m.now)
			}
			switch m.now / (300 * millisecond) % 5 { // pauses, trickles and floods
			case 0:
				m.pass(random.Int64N(50 * millisecond))
			case 1:
				m.pass(random.Int64N(3 * millisecond))
			default:
				m.pass(random.Int64N(300))
			}
		}
	}
}

// A client may warm a hundred workers, exhaust the bucket at one, and then spend what
// the others hold.
func TestManyHolders(t *testing.T) {
	t.Parallel()
	for round := range uint64(60) {
		random := rand.New(rand.NewPCG(5, round))
		limit := algo.Limit{
			Algorithm: algo.TokenBucket, Units: 1000, WindowMicros: second,
			Burst: 2000 + random.Int64N(20_000),
		}
		m := newMesh(t, 100, limit, 0, 200*millisecond)
		g := gauge{limit: &limit, last: m.now}
		one := func(w *worker) {
			if w.request() {
				g.admit(t, m.now)
			}
		}
		for range 1 + random.IntN(4) {
			for range 2 + random.IntN(4) { // warm them, at about the bucket's rate
				for _, w := range m.workers {
					one(w)
				}
				m.pass(random.Int64N(100 * millisecond))
			}
			m.pass(random.Int64N(200 * millisecond)) // while they hold what they have
			for range limit.Burst {
				one(m.workers[0])
			}
			for range 3 {
				for _, w := range m.workers {
					one(w)
				}
			}
			m.pass(random.Int64N(second))
		}
	}
}

// A hot identity far from its limit costs next to no calls.
func TestSharpenedIsCheap(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []algo.Algorithm{algo.FixedWindow, algo.GCRA, algo.TokenBucket, algo.LeakyBucket} {
		m := newMesh(t, 4, algo.Limit{Algorithm: algorithm, Units: 1_000_000_000, WindowMicros: 3600 * second},
			0, 200*millisecond)
		const requests = 40_000
		for i := range requests {
			if !m.workers[i%4].request() {
				t.Fatal("rejected")
			}
			m.pass(50)
		}
		if m.calls > requests/50 {
			t.Errorf("%v: %d calls for %d requests", algorithm, m.calls, requests)
		}
	}
}

// Batches follow the worker's own rate, and shrink with what remains.
func TestOrders(t *testing.T) {
	t.Parallel()
	limit := algo.Limit{Algorithm: algo.FixedWindow, Units: 10_000, WindowMicros: 3600 * second}
	for _, tc := range []struct {
		name                      string
		admitted, remaining, want int64
	}{
		{name: "the worker's own rate", admitted: 50, remaining: 9000, want: 50},
		{name: "a sixteenth of what remains", admitted: 500, remaining: 1600, want: 100},
		{name: "near the end", admitted: 500, remaining: 499},
		{name: "too slow", admitted: 1, remaining: 9000},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			const ttl, now = 200 * millisecond, 100 * second
			m := newMesh(t, 1, limit, 0, ttl)
			l := m.workers[0].book.Of(0, []byte("tag"), &m.limit, now)
			for range tc.admitted {
				l.Heard(&algo.Decision{Allowed: true, Remaining: tc.remaining}, now)
			}
			testenv.Same(t, "units", l.Wants(now), tc.want)
		})
	}
}

// What was admitted long ago, or is known from long ago, asks for nothing.
func TestOrdersAge(t *testing.T) {
	t.Parallel()
	const ttl, now = 200 * millisecond, 100 * second
	m := newMesh(t, 1, algo.Limit{Algorithm: algo.FixedWindow, Units: 10_000, WindowMicros: 3600 * second}, 0, ttl)
	l := m.workers[0].book.Of(0, []byte("tag"), &m.limit, now)
	for range 100 {
		l.Heard(&algo.Decision{Allowed: true, Remaining: 5000}, now)
	}
	for _, tc := range []struct{ age, want int64 }{{0, 100}, {ttl - 1, 100}, {ttl * 3 / 2, 50}, {2 * ttl, 0}} {
		if got := l.Wants(now + tc.age); got != tc.want {
			t.Errorf("after %d us: %d units, want %d", tc.age, got, tc.want)
		}
	}
	for range 100 {
		l.recent.add(now+3*ttl, ttl)
	}
	if got := l.Wants(now + 3*ttl); got != 0 {
		t.Errorf("%d units, though what remains was last heard of long ago", got)
	}
}

// A batch ends with its window, after its ttl, or two of them after Redis was asked: its answer may
// have been long on the way.
func TestLeaseEnds(t *testing.T) {
	t.Parallel()
	const asked = 100 * second
	for _, tc := range []struct {
		name                  string
		algorithm             algo.Algorithm
		answered, reset, want int64
	}{
		{"with its window", algo.FixedWindow, 30 * millisecond, 50 * millisecond, 50 * millisecond},
		{"after its ttl", algo.GCRA, 30 * millisecond, 50 * millisecond, 230 * millisecond},
		{"two of them after Redis was asked", algo.GCRA, 250 * millisecond, 50 * millisecond, 400 * millisecond},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m := newMesh(t, 1, algo.Limit{Algorithm: tc.algorithm, Units: 10_000, WindowMicros: 3600 * second},
				0, 200*millisecond)
			book := m.workers[0].book
			l := book.Of(0, []byte("tag"), &m.limit, asked)
			l.Asked(5, 1, asked)
			book.Granted(l, &algo.Decision{Allowed: true, Remaining: 9000, ResetAfterMicros: tc.reset}, true, m.now,
				asked+tc.answered)
			_, _, before := book.Spend(l, asked+tc.want-1)
			testenv.Same(t, "that a unit is spent just before it ends", before, true)
			_, _, after := book.Spend(l, asked+tc.want)
			testenv.Same(t, "that one is spent after that", after, false)
		})
	}
}

// A batch that comes before the last one is spent has its ttl from when it begins to be spent.
func TestBatchWaits(t *testing.T) {
	t.Parallel()
	const ttl, begun = 200 * millisecond, 100*second + 150*millisecond
	m := newMesh(t, 1, algo.Limit{Algorithm: algo.GCRA, Units: 10_000, WindowMicros: 3600 * second}, 0, ttl)
	book := m.workers[0].book
	l := book.Of(0, []byte("tag"), &m.limit, 100*second)
	for _, units := range []int64{2, 3} {
		l.Asked(units, 1, 100*second)
		book.Granted(l, &algo.Decision{Allowed: true, Remaining: 9000}, true, m.now, 100*second)
	}
	for _, tc := range []struct {
		at   int64
		want bool
	}{{100 * second, true}, {begun - 1, true}, {begun, true}, {begun + ttl - 1, true}, {begun + ttl, false}} {
		_, _, ok := book.Spend(l, tc.at)
		testenv.Same(t, "that a unit is spent", ok, tc.want)
	}
}
