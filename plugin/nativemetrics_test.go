package main

import "strings"

// sharedMetrics are what the workers of one Envoy count, by name.
type sharedMetrics map[string]*sharedMetric

type sharedMetric struct {
	kind   uint32
	value  uint64
	values []uint64 // of a histogram
}

// Kinds of metrics.
const (
	counterMetric = iota
	gaugeMetric
	histogramMetric
)

type definedMetric struct {
	kind uint32
	name string
}

func (v *nativeGuest) defineMetric(kind uint32, name string) (id uint32) {
	v.count("define_metric")
	v.defined = append(v.defined, definedMetric{kind, strings.Clone(name)})
	return uint32(len(v.defined))
}

// metric is the one that an id stands for.
func (v *nativeGuest) metric(call string, id uint32) *sharedMetric {
	v.count(call)
	if id == 0 || int(id) > len(v.defined) {
		v.t.Errorf("proxy_%s: there is no metric %d", call, id)
		return &sharedMetric{}
	}
	defined := v.defined[id-1]
	m := v.worker.metrics[defined.name]
	if m == nil {
		m = &sharedMetric{kind: defined.kind}
		v.worker.metrics[defined.name] = m
	}
	return m
}

func (v *nativeGuest) incrementMetric(id uint32, delta int64) {
	m := v.metric("increment_metric", id)
	if m.kind == histogramMetric || m.kind == counterMetric && delta <= 0 {
		v.t.Errorf("a metric of kind %d was incremented by %d", m.kind, delta)
	}
	m.value += uint64(delta)
}

func (v *nativeGuest) recordMetric(id uint32, value uint64) {
	switch m := v.metric("record_metric", id); m.kind {
	case counterMetric:
		m.value += value
	case gaugeMetric:
		m.value = value
	default:
		m.values = append(m.values, value)
	}
}
