package local

import (
	"testing"

	"github.com/sluiceproxy/sluice/algo"
)

// bench takes cost 1 for each of n identities in turn, a microsecond apart.
func bench(b *testing.B, s *Store, p *algo.Plan, n int) {
	b.Helper()
	var tag numbered
	out, costs := make([]algo.Decision, len(p.Limits())), p.Each(1)
	now := t0
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		now++
		if _, err := s.Decide(p, tag.of(i%n), now, costs, out, Charge); err != nil {
			b.Fatal(err)
		}
	}
}

// unshared is SharedData without copies, so that what is left is the Store's.
type unshared map[string]versioned

func (u unshared) Get(key string) ([]byte, uint32, error) {
	v, ok := u[key]
	if !ok {
		return nil, 0, ErrNotFound
	}
	return v.value, v.cas, nil
}

func (u unshared) Set(key string, value []byte, cas uint32) error {
	u[key] = versioned{append(u[key].value[:0], value...), cas + 1}
	return nil
}

func BenchmarkTake(b *testing.B) {
	plenty := int64(algo.MaxUnits)
	gcra := algo.Limit{Algorithm: algo.GCRA, Units: plenty, WindowMicros: hour}
	three := []algo.Limit{
		gcra,
		{Algorithm: algo.FixedWindow, Units: plenty, WindowMicros: hour},
		{Algorithm: algo.SlidingWindowCounter, Units: plenty, WindowMicros: hour, SubWindows: 60},
	}
	log := algo.Limit{Algorithm: algo.SlidingWindowLog, Units: plenty, WindowMicros: minute}
	b.Run("one identity", func(b *testing.B) {
		bench(b, sized(unshared{}, Options{}), policy(b, gcra), 1)
	})
	b.Run("one identity, three limits", func(b *testing.B) {
		bench(b, sized(unshared{}, Options{}), policy(b, three...), 1)
	})
	b.Run("denied", func(b *testing.B) {
		one := algo.Limit{Algorithm: algo.GCRA, Units: 1, WindowMicros: algo.MaxWindowMicros}
		bench(b, sized(unshared{}, Options{}), policy(b, one), 1)
	})
	b.Run("40000 identities", func(b *testing.B) {
		bench(b, sized(unshared{}, Options{}), policy(b, gcra), 40_000)
	})
	b.Run("full pages", func(b *testing.B) {
		bench(b, sized(unshared{}, Options{Pages: 64}), policy(b, gcra), 64_000)
	})
	b.Run("longest log", func(b *testing.B) {
		bench(b, sized(unshared{}, Options{}), policy(b, log), 1)
	})
}

// A request allocates what the host's Get copies, and nothing else.
func TestTakeAndRefundAllocateNothing(t *testing.T) {
	for name, l := range limitsOf(algo.MaxUnits-2, hour) {
		l.Burst = 0
		p := policy(t, l)
		s := sized(unshared{}, Options{Pages: 2, PageBytes: 1024})
		var tag numbered
		out, two, one := make([]algo.Decision, 1), p.Each(2), p.Each(1)
		i := 0
		step := func() {
			i++
			now, id := t0+int64(i), tag.of(i%50)
			r, err := s.Decide(p, id, now, two, out, Charge)
			if err != nil || !r.Allowed {
				t.Fatalf("%s: allowed %v, %v", name, r.Allowed, err)
			}
			if i%7 != 0 {
				return
			}
			if err := s.RefundEach(p, id, r.AtMicros, now, one); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
		for range 2000 {
			step()
		}
		if n := testing.AllocsPerRun(1000, step); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
