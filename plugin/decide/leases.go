package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// This file asks the leases: units of hot identities that Redis has given this worker.

// spend decides checks with units that this worker holds. It comes before the
// memory of rejections: units in hand were charged already.
func (s *Stores) spend(q *Question, now Time) {
	if s.leases == nil {
		return
	}
	for i := range q.Checks {
		c := &q.Checks[i]
		if len(c.Limits.Limits) == 0 {
			continue
		}
		limit := &c.Limits.Limits[0]
		if limit.Lease == nil || !c.Charges() {
			continue
		}
		c.lease = s.leases.Of(c.Limits.Index, c.Tag, limit, now.SteadyMicros)
		d, charge, ok := s.leases.Spend(c.lease, now.SteadyMicros)
		if !ok {
			continue
		}
		c.Decisions[0], c.nonce = d, charge.Nonce
		c.answer(FromLease, &algo.Ruling{AtMicros: charge.StoreMicros, Allowed: true}, c.Decisions)
	}
}

// replenish asks Redis for the units that the leases of a question will want. The
// request does not wait for them.
func (s *Stores) replenish(q *Question, now Time) {
	if s.leases == nil {
		return
	}
	for i := range q.Checks {
		if c := &q.Checks[i]; c.lease != nil {
			s.take(c, now)
		}
	}
}

// take asks Redis for a batch of units if the lease wants one.
func (s *Stores) take(c *Check, now Time) {
	order := c.lease.Wants(now.SteadyMicros)
	if order.Units == 0 {
		return
	}
	if s.conn.Begin(now.SteadyMicros) != redis.NoCause {
		c.lease.Failed(now.SteadyMicros)
		return
	}
	charge := redis.Charge{
		Script: s.scripts[c.Limits.Index], Tag: c.lease.Tag, Cost: order.Cost(), Sizes: slices.Clone(c.Sizes),
	}
	w := &batch{stores: s, lease: c.lease, charge: charge}
	w.charge.Nonce = s.conn.Add(w, 0, charge)
	c.lease.Asked(order, w.charge.Nonce, now.SteadyMicros)
	s.record.Count(metric.CheckSent, 1)
	s.conn.Flush(now.SteadyMicros)
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
