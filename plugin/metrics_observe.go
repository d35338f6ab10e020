package main

import (
	"github.com/sluiceproxy/sluice/plugin/decide"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// sources is what keeps count of itself.
type sources struct {
	stores   *decide.Stores
	embedded *local.Store // nil: only Redis decides
	conn     *redis.Conn  // nil: only the embedded store decides
}

// tick hands to Envoy what has changed, when it is time.
func (m *metrics) tick(from sources, nowMicros int64) {
	m.observe(from)
	if m.batch.Due(nowMicros) {
		m.batch.Flush()
	}
}

// close hands over the rest.
func (m *metrics) close(from sources) {
	m.observe(from)
	m.batch.Close()
}

// observe counts and sets everything that is not counted as it happens.
func (m *metrics) observe(from sources) {
	if from.conn != nil && from.conn.Used() { // Envoy's main thread has a limiter, too, which is never asked
		for state := range m.states {
			in := int64(0)
			if from.conn.State() == redis.BreakerState(state) {
				in = 1
			}
			m.batch.Set(m.states[state], in)
		}
		m.batch.Set(m.inFlight, from.conn.InFlight())
		renewed, expired := from.conn.Slots()
		m.Count(metric.SlotsRenewed, renewed-m.renewed)
		m.Count(metric.SlotsExpired, expired-m.expired)
		m.renewed, m.expired = renewed, expired
		m.observeSettlements(from.conn.Settlements())
		m.observeRetries(from.conn.Retries())
	}
	m.observeSlots(from.stores)
	m.batch.Set(m.queued, int64(from.stores.Queued()))
	m.batch.Set(m.generation, m.ids.loads)
	m.batch.Set(m.loadTime, m.ids.loadSeconds)
	if from.embedded != nil {
		n := from.embedded.Evictions()
		m.Count(metric.IdentityEvicted, int64(n-m.evicted))
		m.evicted = n
	}
}

// observeSlots sets how many requests hold slots of each rule. The tiers of a rule share
// a gauge, to which each adds its own.
func (m *metrics) observeSlots(stores *decide.Stores) {
	for i, holding := range m.holding {
		if holding != noGauge {
			m.batch.Set(holding, stores.InFlight(i))
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
