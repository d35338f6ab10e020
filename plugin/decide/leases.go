package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// batch is the units of one lease that Redis was asked for.
type batch struct {
	stores  *Stores
	lease   *lease.Lease
	charge  redis.Charge
	expired bool
}

// Decided implements redis.Waiter. Units that come after the timeout are given
// back: the lease has turned to Redis meanwhile.
func (b *batch) Decided(_ int, r *redis.Reply, nowMicros int64) {
	s := b.stores
	if b.expired {
		if r.Allowed {
			b.charge.AtMicros = r.AtMicros
			s.conn.Refund(b.charge, nowMicros)
		}
		return
	}
	if r.Allowed {
		s.record.Count(metric.UnitsTaken, b.charge.Cost)
		s.forget(b.lease.List, b.lease.Tag)
	}
	s.leases.Granted(b.lease, &r.Decisions[0], r.Allowed, r.AtMicros, nowMicros)
}

// Resize implements redis.Waiter. A leased limit is as configured, but for when its
// windows begin.
func (b *batch) Resize(_ int, r *redis.Reply, _ int64) []algo.Size {
	b.charge.Sizes = b.stores.calendars.sizes(b.lease.List, r.AtMicros)
	return b.charge.Sizes
}

// Failed implements redis.Waiter.
func (b *batch) Failed(_ int, _ redis.Cause, nowMicros int64) {
	if !b.expired {
		b.lease.Failed(nowMicros)
	}
}

// Expired implements redis.Waiter.
func (b *batch) Expired(_ int, nowMicros int64) {
	b.expired = true
	b.lease.Failed(nowMicros)
}

// ReturnUnits implements lease.Returner.
func (s *Stores) ReturnUnits(held *lease.Lease, charge lease.Charge, units, nowMicros int64) {
	s.record.Count(metric.UnitsReturned, units)
	s.forget(held.List, held.Tag)
	s.conn.Refund(redis.Charge{
		Script: s.scripts[held.List], Tag: held.Tag, Cost: units,
		Sizes: s.calendars.sizes(held.List, charge.StoreMicros),
		Nonce: charge.Nonce, AtMicros: charge.StoreMicros,
	}, nowMicros)
}

// returnUnits gives the units of all leases back once after a reconnect: data that
// was lost gives no credit for them, and data that was not takes them again.
func (s *Stores) returnUnits(now Time) {
	if s.reconnected && s.leases != nil {
		s.leases.ReturnAll(now.SteadyMicros)
	}
	s.reconnected = false
}
