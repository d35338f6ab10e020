package local

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
)

const t0 = int64(1_760_000_000_000_000) // a time in 2025, in microseconds

const (
	second = int64(1_000_000)
	minute = 60 * second
	hour   = 60 * minute
)

func policy(t testing.TB, limits ...algo.Limit) *algo.Plan {
	t.Helper()
	p, err := algo.NewPlan(limits)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// limitsOf returns every algorithm and variant, each with this limit and window.
func limitsOf(units, windowMicros int64) map[string]algo.Limit {
	return map[string]algo.Limit{
		"fixed_window": {Algorithm: algo.FixedWindow, Units: units, WindowMicros: windowMicros},
		"fixed_window first": {
			Algorithm: algo.FixedWindow, Units: units, WindowMicros: windowMicros,
			FromFirstRequest: true,
		},
		"sliding_window_log":     {Algorithm: algo.SlidingWindowLog, Units: units, WindowMicros: windowMicros},
		"sliding_window_counter": {Algorithm: algo.SlidingWindowCounter, Units: units, WindowMicros: windowMicros},
		"sliding_window_counter5": {
			Algorithm: algo.SlidingWindowCounter, Units: units, WindowMicros: windowMicros,
			SubWindows: 5,
		},
		"token_bucket": {Algorithm: algo.TokenBucket, Units: units, WindowMicros: windowMicros},
		"leaky_bucket": {Algorithm: algo.LeakyBucket, Units: units, WindowMicros: windowMicros},
		"leaky_bucket queue": {
			Algorithm: algo.LeakyBucket, Units: units, WindowMicros: windowMicros, Queue: true,
			MaxDelayMicros: windowMicros,
		},
		"gcra": {Algorithm: algo.GCRA, Units: units, WindowMicros: windowMicros, Burst: units + 2},
	}
}

// pageOfTag makes a tag the identity at hand and returns the key of its page.
func pageOfTag(t testing.TB, s *Store, tag string) string {
	t.Helper()
	r := s.begin(nil, []byte(tag))
	if r.err != nil {
		t.Fatal(r.err)
	}
	return r.key
}

// take is Store.Take with nothing that can go wrong.
func take(t testing.TB, s *Store, p *algo.Plan, tag string, now, cost int64) ([]algo.Decision, bool) {
	t.Helper()
	out := make([]algo.Decision, len(p.Limits()))
	_, allowed, err := s.Take(p, []byte(tag), now, cost, out)
	if err != nil {
		t.Fatalf("Take %s: %v", tag, err)
	}
	return out, allowed
}

// newStore is a Store of its own, of the usual size.
func newStore() *Store { return sized(newMemory(), chance{}, Options{}) }

// Options are a Store's namespace, and its size if it is another than usual.
type Options struct {
	Namespace        string
	Pages, PageBytes int
}

// sized is a Store with options.
func sized(shared SharedData, chance rand.Source, opts Options) *Store {
	s := New(shared, chance, opts.Namespace)
	if opts.Pages > 0 {
		s.pages = uint32(opts.Pages)
	}
	if opts.PageBytes > 0 {
		s.pageBytes = opts.PageBytes
	}
	return s
}

// Take is Decide with one cost for all limits, and without terms.
func (s *Store) Take(
	p *algo.Plan, tag []byte, nowMicros, cost int64, out []algo.Decision,
) (atMicros int64, allowed bool, err error) {
	return s.TakeEach(p, tag, nowMicros, each(p, cost), out)
}

// TakeEach is Take with a cost for each limit.
func (s *Store) TakeEach(
	p *algo.Plan, tag []byte, nowMicros int64, costs []int64, out []algo.Decision,
) (atMicros int64, allowed bool, err error) {
	r, err := s.Decide(p, tag, nowMicros, costs, out, Charge)
	return r.AtMicros, r.Allowed, err
}

// Refund is RefundEach with one cost for all limits.
func (s *Store) Refund(p *algo.Plan, tag []byte, chargedAtMicros, nowMicros, cost int64) error {
	return s.RefundEach(p, tag, chargedAtMicros, nowMicros, each(p, cost))
}

// each is one cost for all limits of a plan.
func each(p *algo.Plan, cost int64) []int64 { return slices.Repeat([]int64{cost}, len(p.Limits())) }

// chance is the process' own: tests of workers in parallel draw from it.
type chance struct{}

func (chance) Uint64() uint64 { return rand.Uint64() }

// memory is SharedData as Envoy has it, see SharedData::get and ::set in
// proxy-wasm-cpp-host, src/shared_data.cc: versions are counted from 1 over all
// keys and skip 0 when they wrap; a key that does not exist is created whatever
// cas is; cas 0 overwrites.
type memory struct {
	mu     sync.Mutex
	data   map[string]versioned
	cas    uint32 // the last one given out
	beside func() // runs before each Set, to get in between; may be nil
}

type versioned struct {
	value []byte
	cas   uint32
}

func newMemory() *memory { return &memory{data: map[string]versioned{}} }

func (m *memory) Get(key string) ([]byte, uint32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	v, ok := m.data[key]
	if !ok {
		return nil, 0, ErrNotFound
	}
	return bytes.Clone(v.value), v.cas, nil
}

func (m *memory) Set(key string, value []byte, cas uint32) error {
	if m.beside != nil {
		m.beside()
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if v, ok := m.data[key]; ok && !slices.Contains([]uint32{0, v.cas}, cas) {
		return ErrCASMismatch
	}
	if m.cas++; m.cas == 0 {
		m.cas++
	}
	m.data[key] = versioned{bytes.Clone(value), m.cas}
	return nil
}

// size returns the bytes in all values, and in the largest.
func (m *memory) size() (total, largest int) {
	for _, v := range m.data {
		total += len(v.value)
		largest = max(largest, len(v.value))
	}
	return total, largest
}
