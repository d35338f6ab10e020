package wasmhost

// A metric's id has its type in the two low bits; above them it counts from 1.
const metricTypeBits = 2

// DefineMetric is proxy_define_metric. It makes a new id each time; those with
// one name share its value, in all VMs of the Envoy.
func (c Caller) DefineMetric(kind MetricType, name string) (id uint32, status Status) {
	if kind >= metricTypes {
		return 0, StatusBadArgument
	}
	c.h.metrics[kind] = append(c.h.metrics[kind], c.h.envoy.statistic(name))
	return uint32(len(c.h.metrics[kind]))<<metricTypeBits | uint32(kind), StatusOK
}

// metric is the one of an id, or nil.
func (c Caller) metric(id uint32) (MetricType, *statistic) {
	kind := MetricType(id & (1<<metricTypeBits - 1))
	n := id >> metricTypeBits
	if kind >= metricTypes || n == 0 || int(n) > len(c.h.metrics[kind]) {
		return kind, nil
	}
	return kind, c.h.metrics[kind][n-1]
}

// IncrementMetric is proxy_increment_metric; a counter only goes up.
func (c Caller) IncrementMetric(id uint32, offset int64) Status {
	kind, s := c.metric(id)
	switch {
	case kind >= Histogram:
		return StatusBadArgument
	case s == nil:
		return StatusNotFound
	case kind == Counter && offset <= 0:
		return StatusBadArgument
	}
	s.value += uint64(offset)
	return StatusOK
}

// RecordMetric is proxy_record_metric. It sets a gauge, and adds to a counter.
func (c Caller) RecordMetric(id uint32, value uint64) Status {
	kind, s := c.metric(id)
	if s == nil {
		return StatusNotFound
	}
	switch kind {
	case Counter:
		s.value += value
	case Gauge:
		s.value = value
	default:
		s.values = append(s.values, value)
	}
	return StatusOK
}
