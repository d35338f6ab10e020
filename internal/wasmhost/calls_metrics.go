package wasmhost

// A metric's id has its type in the two low bits; above them it counts from 1.
const metricTypeBits = 2

// proxy_define_metric(type, name, id) makes a new id each time; those with one
// name share its value, in all VMs of the Envoy.
func defineMetric(c *arguments) Status {
	kind := metricType(c.u32(0))
	name, ok := c.text(1)
	if !ok {
		return StatusInvalidMemoryAccess
	}
	if kind >= metricTypes {
		return StatusBadArgument
	}
	c.h.metrics[kind] = append(c.h.metrics[kind], c.h.envoy.statistic(name))
	return c.put(3, uint32(len(c.h.metrics[kind]))<<metricTypeBits|uint32(kind))
}

// metric is the one that argument 0 names, or nil.
func (c *arguments) metric() (metricType, *statistic) {
	kind := metricType(c.u32(0) & (1<<metricTypeBits - 1))
	n := c.u32(0) >> metricTypeBits
	if kind >= metricTypes || n == 0 || int(n) > len(c.h.metrics[kind]) {
		return kind, nil
	}
	return kind, c.h.metrics[kind][n-1]
}

// proxy_increment_metric(id, offset); a counter only goes up.
func incrementMetric(c *arguments) Status {
	kind, s := c.metric()
	offset := int64(c.stack[1])
	switch {
	case kind >= histogram:
		return StatusBadArgument
	case s == nil:
		return StatusNotFound
	case kind == counter && offset <= 0:
		return StatusBadArgument
	}
	c.h.envoy.update(s, func(s *statistic) { s.value += uint64(offset) })
	return StatusOK
}

// proxy_record_metric(id, value) sets a gauge, and adds to a counter.
func recordMetric(c *arguments) Status {
	kind, s := c.metric()
	value := c.stack[1]
	if s == nil {
		return StatusNotFound
	}
	c.h.envoy.update(s, func(s *statistic) {
		switch kind {
		case counter:
			s.value += value
		case gauge:
			s.value = value
		default:
			s.values = append(s.values, value)
		}
	})
	return StatusOK
}

// proxy_get_metric(id, value); a histogram has none.
func getMetric(c *arguments) Status {
	kind, s := c.metric()
	switch {
	case kind >= histogram:
		return StatusBadArgument
	case s == nil:
		return StatusNotFound
	}
	var value uint64
	c.h.envoy.update(s, func(s *statistic) { value = s.value })
	return c.put64(1, value)
}
