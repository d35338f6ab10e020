package local

import (
	"encoding/binary"
	"math/rand/v2"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// numbered is "r|" and a number, in 10 bytes that are used again.
type numbered [10]byte

func (tag *numbered) of(i int) []byte {
	copy(tag[:], "r|")
	binary.BigEndian.PutUint64(tag[2:], uint64(i))
	return tag[:]
}

// fill charges one unit for each of n identities, a microsecond apart.
func fill(t testing.TB, s *Store, p *algo.Plan, first, n int, now int64) {
	t.Helper()
	var tag numbered
	out, costs := make([]algo.Decision, len(p.Limits())), p.Each(1)
	for i := range n {
		if r, err := s.Decide(p, tag.of(first+i), now+int64(i), costs, out, Charge); err != nil || !r.Allowed {
			t.Fatalf("identity %d: allowed %v, %v", i, r.Allowed, err)
		}
	}
}

func TestMemoryIsBoundedWhateverTheIdentities(t *testing.T) {
	t.Parallel()
	const pages, pageBytes = 4096, 256
	m := newMemory()
	s := sized(m, Options{Pages: pages, PageBytes: pageBytes})
	p := policy(t, algo.Limit{Algorithm: algo.GCRA, Units: 100, WindowMicros: hour})
	fill(t, s, p, 0, 1_000_000, t0)
	total, largest := m.size()
	testenv.Same(t, "the number of values, with the seed", len(m.data), pages+1)
	testenv.Within(t, "the largest value", largest, 1, pageBytes)
	testenv.Within(t, "all values", total, 1, pages*pageBytes+seedSize)
}

// The default size holds the number of identities that the documentation names.
func TestCapacity(t *testing.T) {
	t.Parallel()
	s := newStore()
	p := policy(t, algo.Limit{Algorithm: algo.GCRA, Units: 100, WindowMicros: hour})
	fill(t, s, p, 0, 200_000, t0)
	if s.Evictions() != 0 {
		t.Errorf("%d evictions at 200,000 identities, want none", s.Evictions())
	}
	s = sized(newMemory(), Options{Pages: DefaultPages / 32})
	fill(t, s, p, 0, 500_000/32, t0)
	if kept := 500_000 - 32*int(s.Evictions()); kept < 350_000 {
		t.Errorf("%d identities are kept, want 350,000", kept)
	}
}

// Expired records make room before any other has to go.
func TestExpiredRecordsMakeRoom(t *testing.T) {
	t.Parallel()
	s := sized(newMemory(), Options{Pages: 4, PageBytes: 1024})
	p := policy(t, algo.Limit{Algorithm: algo.GCRA, Units: 1, WindowMicros: second})
	const fits = 40
	for i := range 100 {
		fill(t, s, p, i*fits, fits, t0+int64(i)*2*graceMicros)
	}
	if s.Evictions() != 0 {
		t.Errorf("%d evictions, though those before had expired", s.Evictions())
	}
	fill(t, s, p, 0, 100*fits, t0+hour)
	if s.Evictions() == 0 {
		t.Error("no evictions, though all are alive")
	}
}

// An evicted identity starts afresh: every eviction admits at most what the
// record had in use, and so at most the capacity.
func TestAnEvictionAdmitsAtMostTheCapacity(t *testing.T) {
	t.Parallel()
	const capacity, identities = 5, 150
	for name, l := range limitsOf(capacity, hour) {
		l.Burst = 0
		p := policy(t, l)
		s := sized(newMemory(), Options{Pages: 2, PageBytes: 1024})
		var tag numbered
		var admitted [identities]uint64
		out := make([]algo.Decision, 1)
		rng := rand.New(rand.NewPCG(3, 4))
		for range 5000 {
			i := rng.IntN(identities)
			r, err := s.Decide(p, tag.of(i), t0, p.Each(1), out, Charge)
			if err != nil {
				t.Fatal(err)
			}
			if r.Allowed {
				admitted[i]++
			}
		}
		var excess uint64
		for _, n := range admitted {
			excess += max(n, capacity) - capacity
		}
		if excess == 0 || excess > capacity*s.Evictions() {
			t.Errorf("%s: %d units too many after %d evictions, want 1 to %d",
				name, excess, s.Evictions(), capacity*s.Evictions())
		}
	}
}

// However many identities come, none that has used less of its limit drives
// out one that has used more.
func TestAFloodFreesNoneThatHasUsedMore(t *testing.T) {
	t.Parallel()
	for name, l := range limitsOf(100, hour) {
		p := policy(t, l)
		s := sized(newMemory(), Options{Pages: 2, PageBytes: 1024})
		fresh, _ := take(t, s, p, "r|exhausted", t0, 0)
		take(t, s, p, "r|exhausted", t0, fresh[0].Remaining)
		take(t, s, p, "r|half used", t0, 50)
		fill(t, s, p, 0, 5000, t0)
		now := t0 + 5000
		if s.Evictions() < 4000 {
			t.Errorf("%s: %d evictions: the test shows nothing", name, s.Evictions())
		}
		if out, allowed := take(t, s, p, "r|exhausted", now, 1); allowed {
			t.Errorf("%s: the exhausted one is admitted: %+v", name, out)
		}
		if out, _ := take(t, s, p, "r|half used", now, 0); fresh[0].Remaining-out[0].Remaining != 50 {
			t.Errorf("%s: the half used one has %d left, want 50 less than %d", name, out[0].Remaining, fresh[0].Remaining)
		}
	}
}
