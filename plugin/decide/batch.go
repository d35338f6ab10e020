package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// Batches of units that a lease is given, and gives back.

// replenish asks Redis for a batch of units if the lease of a check wants one. The request
// does not wait for it.
func (s *Stores) replenish(a *Ask, now Time) {
	units := a.lease.Wants(now.SteadyMicros)
	if units == 0 {
		return
	}
	conn := s.remote.conn
	if conn.Begin(now.SteadyMicros) != redis.NoCause {
		a.lease.Failed(now.SteadyMicros)
		return
	}
	check := redis.Check{
		Script: s.remote.scripts[a.Limits.ID], Tag: a.lease.Tag, Cost: units, Sizes: slices.Clone(a.Sizes),
		Over: a.lease.Over(),
	}
	w := &batch{stores: s, lease: a.lease, charge: redis.Charge{
		Script: check.Script, Tag: check.Tag, Cost: check.Cost, Sizes: check.Sizes, Batch: true,
	}}
	w.charge.Nonce = conn.Add(w, 0, check)
	a.lease.Asked(units, w.charge.Nonce, now.SteadyMicros)
	s.record.Count(metric.CheckSent, 1)
	conn.Flush(now.SteadyMicros)
}

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
			s.remote.conn.Refund(b.charge, nowMicros)
		}
		return
	}
	if r.Allowed {
		s.record.Count(metric.UnitsTaken, b.charge.Cost)
		s.memory.forget(b.lease.Set, b.lease.Tag)
	}
	s.leases.book.Granted(b.lease, &r.Decisions[0], r.Allowed, r.AtMicros, nowMicros)
}

// Remake implements redis.Waiter. A leased limit is as configured, but for when its
// windows begin.
func (b *batch) Remake(_ int, r *redis.Reply, check *redis.Check, _ int64) redis.Remade {
	b.charge.Sizes = b.stores.calendars.sizes(b.lease.Set, r.AtMicros)
	if check.Sizes = b.charge.Sizes; check.Sizes == nil {
		return redis.NoSense
	}
	return redis.Again
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
func (s *Stores) ReturnUnits(held *lease.Lease, charge lease.Charge, units int64, lent bool, nowMicros int64) {
	s.record.Count(metric.UnitsReturned, units)
	s.memory.forget(held.Set, held.Tag)
	s.remote.conn.Refund(redis.Charge{
		Script: s.remote.scripts[held.Set], Tag: held.Tag, Cost: units,
		Sizes: s.calendars.sizes(held.Set, charge.StoreMicros),
		Nonce: charge.Nonce, AtMicros: charge.StoreMicros, Batch: lent,
	}, nowMicros)
}
