package main

import (
	"github.com/sluiceproxy/sluice/plugin/decide"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// observe counts and sets everything of a limiter that is not counted as it happens.
func (m *metrics) observe(from *limiter) {
	if from.conn != nil {
		m.observeRedis(from.conn)
	}
	m.observeSlots(from.worker)
	m.batch.Set(m.queued, int64(from.worker.Queued()))
	m.batch.Set(m.generation, m.ids.loads)
	m.batch.Set(m.loadTime, m.ids.loadSeconds)
	m.batch.Set(m.buildInfo, 1)
	if from.embedded != nil {
		evictions := from.embedded.Evictions()
		m.Count(metric.IdentityEvicted, int64(evictions-m.evictions))
		m.evictions = evictions
	}
}

// observeRedis sets the gauges of a connection. The connection of Envoy's main thread,
// which no request uses, has none.
func (m *metrics) observeRedis(conn *redis.Conn) {
	if !conn.Used() {
		return
	}
	for state := range m.states {
		in := int64(0)
		if conn.State() == redis.BreakerState(state) {
			in = 1
		}
		m.batch.Set(m.states[state], in)
	}
	m.batch.Set(m.inFlight, conn.InFlight())
}

// observeSlots sets how many requests hold slots of each rule. The tiers of a rule share
// a gauge, to which each adds its own.
func (m *metrics) observeSlots(worker *decide.Worker) {
	for i, holding := range m.holding {
		if holding != noGauge {
			m.batch.Set(holding, worker.InFlight(rule.LimitSetID(i)))
		}
	}
}

// vitals counts and shows what a Redis has said of itself.
func (m *metrics) vitals(cluster string, told redis.ServerStats, evicted int64) {
	m.batch.Add(m.redisEvicted, evicted)
	m.show(&m.redisUsed, metric.Of(metric.RedisMemory, cluster, "used"), told.UsedBytes)
	m.show(&m.redisMax, metric.Of(metric.RedisMemory, cluster, "max"), told.MaxBytes)
	m.show(&m.redisKeys, metric.Of(metric.RedisKeys, cluster), told.Keys)
}

// show sets the gauge of a number that Redis may not tell. It defines the gauge with the first
// number.
func (m *metrics) show(g *metric.Gauge, name string, value int64) {
	if value == redis.Unknown {
		return
	}
	if *g == noGauge {
		*g = m.batch.Last(name)
	}
	m.batch.Show(*g, value)
}
