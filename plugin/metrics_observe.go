package main

import (
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// observe counts and sets everything that is not counted as it happens.
func (m *metrics) observe(l *limiter) {
	if l.conn != nil && l.conn.Used() { // Envoy's main thread has a limiter, too, which is never asked
		for state := range m.states {
			in := int64(0)
			if l.conn.State() == redis.BreakerState(state) {
				in = 1
			}
			m.batch.Set(m.states[state], in)
		}
		m.batch.Set(m.inFlight, l.conn.InFlight())
		renewed, expired := l.conn.Slots()
		m.Count(metric.SlotsRenewed, renewed-m.renewed)
		m.Count(metric.SlotsExpired, expired-m.expired)
		m.renewed, m.expired = renewed, expired
		m.observeSettlements(l.conn.Settlements())
		m.observeRetries(l.conn.Retries())
	}
	m.observeSlots(l)
	m.batch.Set(m.queued, int64(l.stores.Queued()))
	m.batch.Set(m.generation, l.vm.metrics.loads)
	m.batch.Set(m.loadTime, l.vm.metrics.loadSeconds)
	if l.embedded != nil {
		n := l.embedded.Evictions()
		m.Count(metric.IdentityEvicted, int64(n-m.evicted))
		m.evicted = n
	}
}

// noGauge stands for the lack of a gauge.
const noGauge = metric.Gauge(-1)

// observeSlots sets how many requests hold slots of each rule. The tiers of a rule share
// a gauge, to which each adds its own.
func (m *metrics) observeSlots(l *limiter) {
	for i, holding := range m.holding {
		if holding != noGauge {
			m.batch.Set(holding, l.stores.InFlight(i))
		}
	}
}

// observeSettlements counts the settlements that have ended since the last time.
func (m *metrics) observeSettlements(sent, lost int64) {
	m.Count(metric.SettlementSent, sent-m.sent)
	m.Count(metric.SettlementLost, lost-m.lost)
	m.sent, m.lost = sent, lost
}

// retryEvents is how each reason for a retry is counted.
var retryEvents = [redis.Retries]metric.Event{
	redis.UnknownScript: metric.RetriedUnknownScript,
	redis.NoTime:        metric.RetriedNoTime,
	redis.OtherTime:     metric.RetriedOtherTime,
	redis.OtherFactor:   metric.RetriedOtherFactor,
	redis.Overtaken:     metric.RetriedOvertaken,
}

// observeRetries counts the checks that were sent once more since the last time.
func (m *metrics) observeRetries(retried [redis.Retries]int64) {
	for why, n := range retried {
		m.Count(retryEvents[why], n-m.retried[why])
	}
	m.retried = retried
}
