package local

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
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
	testenv.OK(t, err)
	return p
}

// variants are every algorithm and variant.
var variants = map[string]algo.Limit{
	"fixed_window":            {Algorithm: algo.FixedWindow},
	"fixed_window first":      {Algorithm: algo.FixedWindow, FromFirstRequest: true},
	"sliding_window_log":      {Algorithm: algo.SlidingWindowLog},
	"sliding_window_counter":  {Algorithm: algo.SlidingWindowCounter},
	"sliding_window_counter5": {Algorithm: algo.SlidingWindowCounter, SubWindows: 5},
	"token_bucket":            {Algorithm: algo.TokenBucket},
	"leaky_bucket":            {Algorithm: algo.LeakyBucket},
	"leaky_bucket queue":      {Algorithm: algo.LeakyBucket, Queue: true},
	"gcra":                    {Algorithm: algo.GCRA},
}

// limitsOf returns every variant, each with this limit and window.
func limitsOf(units, windowMicros int64) map[string]algo.Limit {
	limits := map[string]algo.Limit{}
	for name, l := range variants {
		l.Units, l.WindowMicros = units, windowMicros
		if l.Queue {
			l.MaxDelayMicros = windowMicros
		}
		if l.Algorithm == algo.GCRA {
			l.Burst = units + 2
		}
		limits[name] = l
	}
	return limits
}

// pageOfTag makes a tag the identity at hand and returns the key of its page.
func pageOfTag(t testing.TB, s *Store, tag string) string {
	t.Helper()
	r := s.begin(nil, []byte(tag))
	testenv.OK(t, r.err)
	return r.key
}

// take charges a cost to all limits, with nothing that can go wrong.
func take(t testing.TB, s *Store, p *algo.Plan, tag string, now, cost int64) ([]algo.Decision, bool) {
	t.Helper()
	out := make([]algo.Decision, len(p.Limits()))
	r, err := s.Decide(p, []byte(tag), now, p.Each(cost), out, Charge)
	testenv.OK(t, err)
	return out, r.Allowed
}

// newStore is a Store of its own, of the usual size.
func newStore() *Store { return sized(newMemory(), Options{}) }

// Options are a Store's namespace, and its size if it is another than usual.
type Options struct {
	Namespace        string
	Pages, PageBytes int
}

// sized is a Store with options.
func sized(shared SharedData, opts Options) *Store {
	s := New(shared, chance{}, opts.Namespace)
	s.pages, s.pageBytes = cmp.Or(uint32(opts.Pages), s.pages), cmp.Or(opts.PageBytes, s.pageBytes)
	return s
}

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

	err        error // of calls after so many; nil: none
	gets, sets int
}

type versioned struct {
	value []byte
	cas   uint32
}

func newMemory() *memory { return &memory{data: map[string]versioned{}} }

func (m *memory) Get(key string) ([]byte, uint32, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gets--; m.err != nil && m.gets < 0 {
		return nil, 0, m.err
	}
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
	if m.sets--; m.err != nil && m.sets < 0 {
		return m.err
	}
	if v, ok := m.data[key]; ok && cas != 0 && cas != v.cas {
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
