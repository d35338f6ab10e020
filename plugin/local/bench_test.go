package local

import (
	"testing"

	"github.com/sluiceproxy/sluice/algo"
)

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

// BenchmarkTake takes cost 1 for each of some identities in turn, a microsecond apart.
func BenchmarkTake(b *testing.B) {
	plenty := int64(algo.MaxUnits)
	gcra := algo.Limit{Algorithm: algo.GCRA, Units: plenty, WindowMicros: hour}
	for _, c := range []struct {
		name       string
		identities int
		pages      int // 0: as usual
		limits     []algo.Limit
	}{
		{"one identity", 1, 0, []algo.Limit{gcra}},
		{"one identity, three limits", 1, 0, []algo.Limit{
			gcra,
			{Algorithm: algo.FixedWindow, Units: plenty, WindowMicros: hour},
			{Algorithm: algo.SlidingWindowCounter, Units: plenty, WindowMicros: hour, SubWindows: 60},
		}},
		{"denied", 1, 0, []algo.Limit{{Algorithm: algo.GCRA, Units: 1, WindowMicros: algo.MaxWindowMicros}}},
		{"40000 identities", 40_000, 0, []algo.Limit{gcra}},
		{"full pages", 64_000, 64, []algo.Limit{gcra}},
		{"longest log", 1, 0, []algo.Limit{{Algorithm: algo.SlidingWindowLog, Units: plenty, WindowMicros: minute}}},
	} {
		b.Run(c.name, func(b *testing.B) {
			s, p := sized(unshared{}, Options{Pages: c.pages}), policy(b, c.limits...)
			var tag numbered
			out, costs := make([]algo.Decision, len(c.limits)), p.Each(1)
			now := t0
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				now++
				if _, err := s.Decide(p, tag.of(i%c.identities), now, costs, out, Charge); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
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
