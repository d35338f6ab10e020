package local

import (
	"bytes"
	"slices"
	"sync"
)

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
