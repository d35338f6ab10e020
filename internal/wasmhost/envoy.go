package wasmhost

import (
	"maps"
	"slices"
)

// Envoy is the part that the workers of one Envoy share: the shared data of their VMs
// and the statistics. The Hosts that are its workers take turns, on one goroutine.
type Envoy struct {
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
	value, ok := e.shared[sharedKey{vmID, key}]
	return slices.Clone(value.data), ok
}

// setShared stores data, which the Envoy keeps. A cas of 0 overwrites; any
// other has to be that of the value, if there is one.
func (e *Envoy) setShared(key sharedKey, data []byte, cas uint32) Status {
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
	if e.stats[name] == nil {
		e.stats[name] = &statistic{}
	}
	return e.stats[name]
}

// Metric is the value of a counter or gauge, which the workers share; ok is
// whether one was defined with that name. (Envoy adds a prefix to it.)
func (e *Envoy) Metric(name string) (value uint64, ok bool) {
	if s, ok := e.stats[name]; ok {
		return s.value, true
	}
	return 0, false
}

// Histogram is every value that was recorded under a name.
func (e *Envoy) Histogram(name string) []uint64 {
	if s := e.stats[name]; s != nil {
		return slices.Clone(s.values)
	}
	return nil
}

// Metrics is the names of all metrics that were defined, sorted.
func (e *Envoy) Metrics() []string {
	return slices.Sorted(maps.Keys(e.stats))
}
