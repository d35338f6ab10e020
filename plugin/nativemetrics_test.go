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

// definedMetric is what an id stands for. Ids are those of all VMs: they share the
// plugin's variables, and with them the ids it remembers.
type definedMetric struct {
	kind uint32
	name string
}

var definedMetrics []definedMetric // by id, from 1

// What an id, from 1, was defined as, over all VMs, for the reason that
// lastContext is.
var (
	metricNames []string
	metricKinds []uint32
)

func (v *nativeGuest) defineMetric(kind uint32, name string) (id uint32) {
	v.count("define_metric")
	metricNames = append(metricNames, strings.Clone(name))
	metricKinds = append(metricKinds, kind)
	return uint32(len(metricNames))
}

// metric is the one that an id stands for.
func (v *nativeGuest) metric(call string, id uint32) *sharedMetric {
	v.count(call)
	if id == 0 || int(id) > len(metricNames) {
		v.t.Errorf("proxy_%s: there is no metric %d", call, id)
		return &sharedMetric{}
	}
	m := v.worker.metrics[metricNames[id-1]]
	if m == nil {
		m = &sharedMetric{kind: metricKinds[id-1]}
		v.worker.metrics[metricNames[id-1]] = m
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
