package main

import "github.com/sluiceproxy/sluice/plugin/metric"

// metricIDs is Envoy's statistics, as this VM has defined them. Contexts come and go
// with each reload, while what Envoy keeps for an id stays as long as the VM.
type metricIDs struct {
	host    host
	defined [metric.HistogramKind + 1]map[string]uint32 // by kind and name

	// How many configurations this VM has loaded, and when the last of them, in Unix
	// time. These are per VM, not per configuration, because several listeners report
	// them in any order.
	loads, loadSeconds int64
}

func newMetricIDs(h host) *metricIDs {
	m := &metricIDs{host: h}
	for kind := range m.defined {
		m.defined[kind] = map[string]uint32{}
	}
	return m
}

// loaded notes that a configuration was loaded.
func (m *metricIDs) loaded() { m.loads, m.loadSeconds = m.loads+1, m.host.unixMicros()/1e6 }

// Define implements metric.Host.
func (m *metricIDs) Define(kind metric.Kind, name string) uint32 {
	id, ok := m.defined[kind][name]
	if !ok {
		id = m.host.defineMetric(uint32(kind), name)
		m.defined[kind][name] = id
	}
	return id
}

// Add and Record implement metric.Host.
func (m *metricIDs) Add(id uint32, delta int64)     { m.host.incrementMetric(id, delta) }
func (m *metricIDs) Record(id uint32, value uint64) { m.host.recordMetric(id, value) }
