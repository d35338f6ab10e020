package metric

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"testing"
)

// fakeHost is Envoy's statistics, shared by any number of batches.
type fakeHost struct {
	names     []string // by id, from 1 on
	values    map[string]int64
	histogram []uint64 // all values of all
	calls     int
	refuse    bool
}

func newFakeHost() *fakeHost { return &fakeHost{values: map[string]int64{}} }

func (h *fakeHost) Define(kind Kind, name string) uint32 {
	if h.refuse {
		return 0
	}
	name = fmt.Sprintf("%d %s", kind, name)
	if !slices.Contains(h.names, name) {
		h.names = append(h.names, name)
	}
	return uint32(slices.Index(h.names, name)) + 1
}

func (h *fakeHost) Add(id uint32, delta int64) {
	h.calls++
	h.values[h.names[id-1]] += delta
}

func (h *fakeHost) Record(id uint32, value uint64) {
	h.calls++
	if name := h.names[id-1]; name[0] == '0'+byte(HistogramKind) {
		h.histogram = append(h.histogram, value)
	} else {
		h.values[name] = int64(value)
	}
}

func (h *fakeHost) expect(t *testing.T, step string, calls int, want map[string]int64) {
	t.Helper()
	if h.calls != calls {
		t.Errorf("%s: %d calls, want %d", step, h.calls, calls)
	}
	if !maps.Equal(h.values, want) {
		t.Errorf("%s: %v, want %v", step, h.values, want)
	}
	h.calls = 0
}

func TestFlush(t *testing.T) {
	t.Parallel()
	h := newFakeHost()
	b := New(h, 1)
	used, unused := b.Counter("used"), b.Counter("unused")
	waiting, generation := b.Sum("waiting"), b.Last("generation")
	_ = unused
	h.expect(t, "defined", 0, map[string]int64{})

	b.Inc(used)
	b.Inc(used)
	b.Add(used, 5)
	b.Add(used, 0)
	b.Add(used, -3)
	b.Inc(0) // into the void
	b.Set(waiting, 4)
	b.Set(generation, 9)
	h.expect(t, "counted", 0, map[string]int64{})
	b.Flush()
	h.expect(t, "flushed", 3, map[string]int64{"0 used": 7, "1 waiting": 4, "1 generation": 9})
	b.Flush()
	h.expect(t, "flushed again", 0, map[string]int64{"0 used": 7, "1 waiting": 4, "1 generation": 9})
	b.Set(waiting, 1)
	b.Flush()
	h.expect(t, "a gauge fell", 1, map[string]int64{"0 used": 7, "1 waiting": 1, "1 generation": 9})
	b.Inc(used)
	b.Close()
	h.expect(t, "closed", 2, map[string]int64{"0 used": 8, "1 waiting": 0, "1 generation": 9})
}

// Workers share the statistics.
func TestWorkers(t *testing.T) {
	t.Parallel()
	h := newFakeHost()
	a, b := New(h, 1), New(h, 2)
	for i, w := range []*Batch{a, b} {
		c, sum, last := w.Counter("c"), w.Sum("sum"), w.Last("last")
		w.Inc(c)
		w.Set(sum, int64(10+i))
		w.Set(last, int64(10+i))
		w.Flush()
	}
	h.expect(t, "two workers", 6, map[string]int64{"0 c": 2, "1 sum": 21, "1 last": 11})
	a.Close()
	h.expect(t, "one worker", 1, map[string]int64{"0 c": 2, "1 sum": 11, "1 last": 11})
}

// A host that has no metrics is not called.
func TestRefused(t *testing.T) {
	t.Parallel()
	h := newFakeHost()
	h.refuse = true
	b := New(h, 1)
	b.Inc(b.Counter("c"))
	b.Set(b.Sum("g"), 1)
	b.Set(b.Last("l"), 1)
	b.Observe(b.Histogram("h"), 1)
	b.Flush()
	h.expect(t, "refused", 0, map[string]int64{})
}

func TestDue(t *testing.T) {
	t.Parallel()
	b := New(newFakeHost(), 1)
	c := b.Counter("c")
	next := func(step string, nowMicros, want int64, due bool) {
		t.Helper()
		if got := b.NextMicros(nowMicros); got != want {
			t.Errorf("%s: next in %d, want %d", step, got, want)
		}
		if got := b.Due(nowMicros); got != due {
			t.Errorf("%s: due %v, want %v", step, got, due)
		}
		if got := b.Pending(); got != (want > 0) {
			t.Errorf("%s: pending %v", step, got)
		}
	}
	next("nothing has changed", 5_000_000, 0, false)
	b.Inc(c)
	if b.Due(5_000_000) || b.Pending() {
		t.Error("due before anybody knows since when")
	}
	next("a change", 5_000_000, FlushMicros, false)
	b.Inc(c)
	next("a later change", 5_400_000, FlushMicros-400_000, false)
	next("in time", 6_000_000, 1, true)
	next("late", 9_000_000, 1, true)
	b.Flush()
	next("flushed", 9_000_001, 0, false)
	b.Touch()
	next("touched", 9_500_000, FlushMicros, false)
}

func TestHistogramKeepsAllOfAFew(t *testing.T) {
	t.Parallel()
	h := newFakeHost()
	b := New(h, 1)
	x := b.Histogram("x")
	var want []uint64
	for i := range sampleSize {
		b.Observe(x, int64(i*10))
		want = append(want, uint64(i*10))
	}
	b.Flush()
	if got := h.histogram; !slices.Equal(got, want) {
		t.Errorf("recorded %v, want %v", got, want)
	}
	b.Flush()
	if got := len(h.histogram); got != sampleSize {
		t.Errorf("%d values after an empty flush, want %d", got, sampleSize)
	}
	b.Observe(x, -5) // a clock that was set back
	b.Flush()
	if got := h.histogram[sampleSize]; got != 0 {
		t.Errorf("recorded %d for a negative time, want 0", got)
	}
}

// Of many values each is as likely to be kept as any other: each tenth of them
// has a tenth of the sample, within five standard deviations.
func TestHistogramSamplesEvenly(t *testing.T) {
	t.Parallel()
	const values, rounds, tenths = 1000, 2000, 10
	h := newFakeHost()
	b := New(h, 12345)
	x := b.Histogram("x")
	for range rounds {
		for v := range int64(values) {
			b.Observe(x, v)
		}
		b.Flush()
	}
	var counts [tenths]float64
	for _, v := range h.histogram {
		counts[v*tenths/values]++
	}
	if got := len(h.histogram); got != rounds*sampleSize {
		t.Errorf("%d values recorded, want %d", got, rounds*sampleSize)
	}
	n, p := float64(rounds*sampleSize), 1.0/tenths
	for i, got := range counts {
		if limit := 5 * math.Sqrt(n*p*(1-p)); math.Abs(got-n*p) > limit {
			t.Errorf("tenth %d has %.0f of the sample, want %.0f +- %.0f", i, got, n*p, limit)
		}
	}
}

func TestEscape(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"per-user_1~": "per-user_1~",
		"api.v1":      "api%2Ev1",
		"a b":         "a%20b",
		`"%2E"\`:      "%22%252E%22%5C",
		"a|b:c@#":     "a%7Cb%3Ac%40%23",
		"":            "",
	} {
		if got := Of("*", name); got != want {
			t.Errorf("Of(%q) is %q, want %q", name, got, want)
		}
	}
	seen := map[string]string{}
	for a := range 256 {
		for b := range 256 {
			name := string([]byte{byte(a), byte(b)})
			if other, ok := seen[Of("*", name)]; ok {
				t.Fatalf("%q and %q are both %q", name, other, Of("*", name))
			}
			seen[Of("*", name)] = name
		}
	}
}

// Counting and flushing allocate nothing.
func TestAllocations(t *testing.T) {
	h := newFakeHost()
	b := New(h, 1)
	c, g, x := b.Counter("c"), b.Sum("g"), b.Histogram("x")
	h.histogram = make([]uint64, 0, 1_000_000)
	n := int64(0)
	work := func() {
		n++
		for range 2 * sampleSize {
			b.Inc(c)
			b.Observe(x, n)
		}
		b.Set(g, n)
		b.NextMicros(n)
		b.Flush()
	}
	if got := testing.AllocsPerRun(100, work); got != 0 {
		t.Errorf("%v allocations, want none", got)
	}
}

func BenchmarkInc(b *testing.B) {
	batch := New(newFakeHost(), 1)
	c := batch.Counter("c")
	for b.Loop() {
		batch.Inc(c)
	}
}

func BenchmarkObserve(b *testing.B) {
	batch := New(newFakeHost(), 1)
	h := batch.Histogram("h")
	for b.Loop() {
		batch.Observe(h, 1)
	}
}
