package lease

import (
	"math/rand/v2"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/config"
)

const (
	millisecond = 1_000
	second      = 1_000_000
)

// mesh is some workers with leases over one Redis, the Go twin. Redis answers at
// once; the workers' clocks run apart from Redis'.
type mesh struct {
	t       *testing.T
	limit   config.Limit
	policy  *algo.Plan
	states  []algo.State
	workers []*worker
	now     int64
	calls   int
}

type worker struct {
	mesh *mesh
	skew int64
	book *Book
	lent int64 // units given back that Redis counted as lent
}

func newMesh(t *testing.T, workers int, limit algo.Limit, units, ttl int64) *mesh {
	t.Helper()
	if limit.Algorithm.HasBurst() {
		limit.LeaseMicros = 2 * ttl
	}
	policy, err := algo.NewPlan([]algo.Limit{limit})
	if err != nil {
		t.Fatal(err)
	}
	m := &mesh{t: t, policy: policy, states: make([]algo.State, 1), now: 1_790_000_000 * second}
	m.limit = config.Limit{Limit: limit, Lease: &config.Lease{Units: units, TTLMicros: ttl}}
	for i := range workers {
		w := &worker{mesh: m, skew: int64(i) * 12_345_678}
		w.book = NewBook(w, 1)
		m.workers = append(m.workers, w)
	}
	return m
}

func (w *worker) clock() int64 { return w.mesh.now - 1_790_000_000*second + w.skew }

// ReturnUnits implements Returner.
func (w *worker) ReturnUnits(_ *Lease, charge Charge, units int64, lent bool, _ int64) {
	w.mesh.calls++
	if !lent {
		w.mesh.policy.Refund(w.mesh.states, charge.StoreMicros, w.mesh.now, []int64{units})
		return
	}
	w.lent += units
	if units <= 0 {
		w.mesh.t.Fatalf("returned %d units", units)
	}
	w.mesh.policy.RefundBatch(w.mesh.states, charge.StoreMicros, w.mesh.now, []int64{units})
}

func (m *mesh) take(cost int64) (algo.Decision, bool) { return m.takeBatch(cost, algo.Over{}) }

func (m *mesh) takeBatch(cost int64, over algo.Over) (algo.Decision, bool) {
	m.calls++
	out := make([]algo.Decision, 1)
	allowed := m.policy.DecideBatch(over, m.states, m.now, []int64{cost}, out)
	return out[0], allowed
}

// request is one request at a worker, and whether it is admitted.
func (w *worker) request() bool {
	m, now := w.mesh, w.clock()
	w.book.Expire(now)
	l := w.book.Of(0, []byte("tag"), &m.limit, now)
	d, _, ok := w.book.Spend(l, now)
	if ok && !d.Allowed {
		m.t.Fatal("a unit that was spent is not allowed")
	}
	if !ok {
		d, ok = m.take(1)
		l.Heard(&d, now)
	}
	if units := l.Wants(now); units > 0 {
		over := l.Over()
		l.Asked(units, now, now)
		d, allowed := m.takeBatch(units, over)
		w.book.Granted(l, &d, allowed, m.now, now)
	}
	return ok
}

// pass lets time pass, in which the workers' timers fire.
func (m *mesh) pass(micros int64) {
	end := m.now + micros
	for m.now < end {
		step := end - m.now
		for _, w := range m.workers {
			if next := w.book.NextMicros(w.clock()); next > 0 {
				step = min(step, next)
			}
		}
		m.now += step
		for _, w := range m.workers {
			w.book.Expire(w.clock())
		}
	}
}

// A window admits no more than its limit, however the workers share it, and with
// few calls all of it.
func TestWindow(t *testing.T) {
	t.Parallel()
	m := newMesh(t, 3, algo.Limit{Algorithm: algo.FixedWindow, Units: 1000, WindowMicros: second}, 50, 200*millisecond)
	random := rand.New(rand.NewPCG(1, 1))
	admitted := map[int64]int{}
	requests := 0
	for start := m.now; m.now < start+20*second; requests++ {
		if m.workers[random.IntN(3)].request() {
			admitted[m.now/second]++
		}
		m.pass(random.Int64N(800))
	}
	for window, n := range admitted {
		if n > 1000 {
			t.Errorf("window %d admitted %d", window, n)
		}
		if n < 850 && window != m.now/second {
			t.Errorf("window %d admitted only %d of about 2,500 requests", window, n)
		}
	}
	t.Logf("%d requests, %d calls", requests, m.calls)
}

// A bucket admits never more than burst + rate * time. Only units that other
// workers give back, when their traffic ends, may be room that is counted twice.
func TestBucket(t *testing.T) {
	t.Parallel()
	for _, algorithm := range []algo.Algorithm{algo.GCRA, algo.TokenBucket, algo.LeakyBucket} {
		limit := algo.Limit{Algorithm: algorithm, Units: 1000, WindowMicros: second, Burst: 500}
		m := newMesh(t, 1, limit, 50, 200*millisecond)
		random := rand.New(rand.NewPCG(2, uint64(algorithm)))
		g, admitted := gauge{limit: &limit, last: m.now}, 0
		for start := m.now; m.now < start+30*second; {
			if m.workers[0].request() {
				g.admit(t, m.now)
				admitted++
			}
			switch m.now / second % 5 { // pauses, trickles and floods
			case 0:
				m.pass(random.Int64N(50 * millisecond))
			case 1:
				m.pass(random.Int64N(3 * millisecond))
			default:
				m.pass(random.Int64N(500))
			}
		}
		if admitted < 15_000 {
			t.Errorf("%v: only %d admitted in 30 s", algorithm, admitted)
		}
		t.Logf("%v: %d admitted, %d calls", algorithm, admitted, m.calls)
	}
}

// A hot identity costs far fewer calls than requests; a cold one never leases.
func TestHotAndCold(t *testing.T) {
	t.Parallel()
	limit := algo.Limit{Algorithm: algo.GCRA, Units: 100_000_000, WindowMicros: 3600 * second}
	m := newMesh(t, 1, limit, 50, 200*millisecond)
	for range 20_000 {
		if !m.workers[0].request() {
			t.Fatal("rejected")
		}
		m.pass(50)
	}
	if m.calls > 20_000/20 {
		t.Errorf("%d calls for 20,000 requests", m.calls)
	}
	m.pass(second)
	m.calls = 0
	for range 100 {
		m.workers[0].request()
		m.pass(100 * millisecond)
	}
	if m.calls != 100 {
		t.Errorf("%d calls for 100 requests that are far apart", m.calls)
	}
}

// What is not spent comes back when the time is over.
func TestGivenBack(t *testing.T) {
	t.Parallel()
	m := newMesh(t, 1, algo.Limit{Algorithm: algo.FixedWindow, Units: 1000, WindowMicros: 3600 * second},
		50, 200*millisecond)
	for range 60 {
		m.workers[0].request()
	}
	m.pass(second)
	if d, _ := m.take(0); d.Remaining != 940 {
		t.Errorf("%d remain after 60 of 1000", d.Remaining)
	}
	if next := m.workers[0].book.NextMicros(m.workers[0].clock()); next != 0 {
		t.Errorf("the timer is to run in %d", next)
	}
}

// A unit of a request that is rejected by another rule is there for the next one,
// or goes back to Redis.
func TestUnspend(t *testing.T) {
	t.Parallel()
	m := newMesh(t, 1, algo.Limit{Algorithm: algo.FixedWindow, Units: 1000, WindowMicros: 3600 * second},
		50, 200*millisecond)
	w := m.workers[0]
	for range 30 {
		w.request()
	}
	l := w.book.Of(0, []byte("tag"), &m.limit, w.clock())
	before, _ := m.take(0)
	d, charge, ok := w.book.Spend(l, w.clock())
	if !ok {
		t.Fatal("no unit to spend")
	}
	w.book.Unspend(l, charge, w.clock())
	again, _, _ := w.book.Spend(l, w.clock())
	if again.Remaining != d.Remaining {
		t.Errorf("%d remain, then %d", d.Remaining, again.Remaining)
	}
	m.pass(second)
	w.book.Unspend(l, charge, w.clock()) // its batch has gone
	after, _ := m.take(0)
	if want := int64(1000 - 30); after.Remaining != want {
		t.Errorf("%d remain of 1000 after 30 requests (%d while leased)", after.Remaining, before.Remaining)
	}
}

// A unit that comes back after its batch is used up is taken off what is lent once: with what is told
// to be over, it is all that was lent, and not more, whenever it comes.
func TestUnspendOfUsedUp(t *testing.T) {
	t.Parallel()
	const units = 20
	for _, tc := range []struct {
		name       string
		then       func(w *worker, l *Lease) // before the unit comes back
		lent, over int64
	}{
		{"its last unit was spent", func(*worker, *Lease) {}, 1, units - 1},
		{"others ask Redis", func(w *worker, l *Lease) { w.book.Spend(l, w.clock()) }, 1, units - 1},
		{"its end was told", func(w *worker, l *Lease) {
			w.book.Spend(l, w.clock())
			testenv.Same(t, "told", l.Over().Units, units)
			l.Asked(units, 8, w.clock())
		}, 0, 0},
	} {
		m := newMesh(t, 1, algo.Limit{Algorithm: algo.GCRA, Units: 1000, WindowMicros: 3600 * second}, units, second)
		w := m.workers[0]
		l := w.book.Of(0, []byte("tag"), &m.limit, w.clock())
		l.Asked(units, 7, w.clock())
		d, allowed := m.take(units)
		w.book.Granted(l, &d, allowed, m.now, w.clock())
		var charge Charge
		for range units {
			_, charge, _ = w.book.Spend(l, w.clock())
		}
		tc.then(w, l)
		w.book.Unspend(l, charge, w.clock())
		w.book.Spend(l, w.clock())
		testenv.Same(t, tc.name+": units that came back as lent", w.lent, tc.lent)
		testenv.Same(t, tc.name+": units that are over", l.Over().Units, tc.over)
	}
}

// Everything that is held can be given back at once, and be taken anew.
func TestReturnAll(t *testing.T) {
	t.Parallel()
	m := newMesh(t, 1, algo.Limit{Algorithm: algo.FixedWindow, Units: 1000, WindowMicros: 3600 * second},
		50, 200*millisecond)
	w := m.workers[0]
	for range 40 {
		w.request()
	}
	w.book.ReturnAll(w.clock())
	if d, _ := m.take(0); d.Remaining != 960 {
		t.Errorf("%d remain after 40 of 1000", d.Remaining)
	}
	l := w.book.Of(0, []byte("tag"), &m.limit, w.clock())
	if _, _, ok := w.book.Spend(l, w.clock()); ok {
		t.Error("a unit was spent that was given back")
	}
	for range 40 {
		if !w.request() {
			t.Fatal("rejected")
		}
	}
	if _, _, ok := w.book.Spend(l, w.clock()); !ok {
		t.Error("no units were taken anew")
	}
}

// A book that is closed gives back what it is still being given.
func TestClose(t *testing.T) {
	t.Parallel()
	m := newMesh(t, 1, algo.Limit{Algorithm: algo.FixedWindow, Units: 1000, WindowMicros: 3600 * second},
		50, 200*millisecond)
	w := m.workers[0]
	var l *Lease
	for range 40 {
		l = w.book.Of(0, []byte("tag"), &m.limit, w.clock())
	}
	units := l.Wants(w.clock())
	l.Asked(units, 1, w.clock())
	w.book.Close(w.clock())
	d, allowed := m.take(units)
	w.book.Granted(l, &d, allowed, m.now, w.clock())
	if d, _ := m.take(0); d.Remaining != 1000 {
		t.Errorf("%d remain of 1000, though nothing was spent", d.Remaining)
	}
}
