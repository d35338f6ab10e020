package main

import "strings"

// metrics are what the workers of one Envoy count, by name.
type metrics map[string]*metric

type metric struct {
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

func (v *nativeGuest) defineMetric(kind uint32, name string) (id uint32) {
	v.count("define_metric")
	m := v.worker.metrics[name]
	if m == nil {
		m = &metric{kind: kind}
		v.worker.metrics[strings.Clone(name)] = m
	}
	v.defined = append(v.defined, m)
	return uint32(len(v.defined))
}

// metric is the one that an id stands for.
func (v *nativeGuest) metric(call string, id uint32) *metric {
	v.count(call)
	if id == 0 || int(id) > len(v.defined) {
		v.t.Errorf("proxy_%s: there is no metric %d", call, id)
		return &metric{}
	}
	return v.defined[id-1]
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
