package main

import (
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// spend decides a check with a unit that this worker holds, if its limit is
// leased and there is one.
func (l *limiter) spend(c *check, nowMicros int64) bool {
	limit := &c.limits.Limits[0]
	if limit.Lease == nil {
		return false
	}
	c.lease = l.leases.Of(c.limits.Index, c.tag, limit, nowMicros)
	d, charge, ok := l.leases.Spend(c.lease, nowMicros)
	if !ok {
		return false
	}
	c.decisions[0], c.atMicros, c.allowed, c.decided = d, charge.StoreMicros, true, true
	c.leased, c.charge = true, charge
	return true
}

// replenish asks Redis for units that a check's lease will want. It waits for
// them on its own; the request does not.
func (l *limiter) replenish(c *check, nowMicros int64) {
	if c.lease == nil {
		return
	}
	cost := c.lease.Wants(nowMicros)
	if cost == 0 {
		return
	}
	if cause := l.begin(nowMicros); cause != redis.NoCause {
		c.lease.Failed(nowMicros)
		return
	}
	charge := redis.Charge{Script: l.scripts[c.limits.Index], Tag: append([]byte(nil), c.tag...), Cost: cost}
	w := &batchWaiter{limiter: l, lease: c.lease, charge: charge}
	w.charge.Nonce = l.conn.Add(w, 0, charge)
	c.lease.Asked(cost, w.charge.Nonce)
	l.metrics.count(checkSent, 1)
	l.conn.Flush(nowMicros)
}

// batchWaiter waits for the units of one lease.
type batchWaiter struct {
	limiter *limiter
	lease   *lease.Lease
	charge  redis.Charge
	over    bool // it has expired
}

// Decided implements redis.Waiter.
func (w *batchWaiter) Decided(_ int, reply *redis.Reply, nowMicros int64) {
	if w.over { // units that are charged all the same are given back
		if reply.Allowed {
			w.charge.AtMicros = reply.AtMicros
			w.limiter.conn.Refund(w.charge, nowMicros)
		}
		return
	}
	if reply.Allowed {
		w.limiter.metrics.count(unitsTaken, w.charge.Cost)
	}
	w.limiter.leases.Granted(w.lease, &reply.Decisions[0], reply.Allowed, reply.AtMicros, nowMicros)
}

// Failed implements redis.Waiter.
func (w *batchWaiter) Failed(int, redis.Cause, int64) { w.fail() }

// Expired implements redis.Waiter.
func (w *batchWaiter) Expired(int, int64) { w.fail() }

func (w *batchWaiter) fail() {
	if !w.over {
		w.over = true
		w.lease.Failed(steadyMicros())
	}
}

// ReturnUnits implements lease.Returner.
func (l *limiter) ReturnUnits(held *lease.Lease, charge lease.Charge, units int64) {
	l.metrics.count(unitsReturned, units)
	l.conn.Refund(redis.Charge{
		Script: l.scripts[held.List], Tag: held.Tag, Cost: units, Nonce: charge.Nonce, AtMicros: charge.StoreMicros,
	}, steadyMicros())
}
