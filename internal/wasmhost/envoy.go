package wasmhost

import (
	"slices"
	"sync"
)

// Envoy is the part that the workers of one Envoy share: the shared data of their VMs
// and the statistics. The Hosts that are its workers may run in parallel.
type Envoy struct {
	mu     sync.Mutex
	shared map[sharedKey]sharedValue
	cas    uint32
	stats  map[string]*statistic
}

type sharedKey struct{ vmID, key string }

type sharedValue struct {
	data []byte
	cas  uint32
}

// NewEnvoy makes an Envoy without workers.
func NewEnvoy() *Envoy {
	return &Envoy{shared: map[sharedKey]sharedValue{}, stats: map[string]*statistic{}}
}

// SharedData is the value the VMs with an id share under a key.
func (e *Envoy) SharedData(vmID, key string) (data []byte, ok bool) {
	value, ok := e.getShared(sharedKey{vmID, key})
	return slices.Clone(value.data), ok
}

// SharedKeys is how many keys the VMs with an id share.
func (e *Envoy) SharedKeys(vmID string) (n int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for key := range e.shared {
		if key.vmID == vmID {
			n++
		}
	}
	return n
}

func (e *Envoy) getShared(key sharedKey) (sharedValue, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	value, ok := e.shared[key]
	return value, ok
}

// setShared stores data, which the Envoy keeps. A cas of 0 overwrites; any
// other has to be that of the value, if there is one.
func (e *Envoy) setShared(key sharedKey, data []byte, cas uint32) Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	if old, ok := e.shared[key]; ok && cas != 0 && cas != old.cas {
		return StatusCASMismatch
	}
	if e.cas++; e.cas == 0 { // 0 is no valid cas
		e.cas = 1
	}
	e.shared[key] = sharedValue{data, e.cas}
	return StatusOK
}

// A statistic belongs to all metrics that were defined with its name.
type statistic struct {
	value  uint64
	values []uint64 // of a histogram
}

func (e *Envoy) statistic(name string) *statistic {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stats[name] == nil {
		e.stats[name] = &statistic{}
	}
	return e.stats[name]
}

// Metric is the value of a counter or gauge, which the workers share; ok is
// whether one was defined with that name. (Envoy adds a prefix to it.)
func (e *Envoy) Metric(name string) (value uint64, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s, ok := e.stats[name]
	if !ok {
		return 0, false
	}
	return s.value, true
}

// Histogram is every value that was recorded under a name.
func (e *Envoy) Histogram(name string) []uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.stats[name]; s != nil {
		return slices.Clone(s.values)
	}
	return nil
}

// Metrics is the names of all metrics that were defined, sorted.
func (e *Envoy) Metrics() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	names := make([]string, 0, len(e.stats))
	for name := range e.stats {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// update changes or reads a statistic while no other worker does.
func (e *Envoy) update(s *statistic, f func(s *statistic)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(s)
}
