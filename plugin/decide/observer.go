package decide

import (
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// observer is the Stores as those who are told what happens to the connection.
type observer struct{ *Stores }

// RequestFailed implements redis.Observer.
func (s observer) RequestFailed(cause redis.Cause) { s.record.RedisFailed(cause) }

// RoundTrip implements redis.Observer.
func (s observer) RoundTrip(micros int64) { s.record.RoundTrip(micros) }

// Refunded implements redis.Observer.
func (s observer) Refunded() { s.record.Count(metric.ChargeRefunded, 1) }

// BreakerChanged implements redis.Observer.
func (s observer) BreakerChanged(state redis.BreakerState) {
	s.record.BreakerChanged(state)
	if state == redis.Closed {
		s.slots.book.Hurry() // none was renewed meanwhile
	}
}

// Reconnected implements redis.Observer. The Redis that answers now may lack the charges behind
// the remembered rejections and the leases.
func (s observer) Reconnected() {
	s.record.Count(metric.Reconnected, 1)
	s.leases.stale = true
	s.memory.denied.Clear()
	s.slots.book.Hurry()
}
