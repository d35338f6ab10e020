package main

import (
	"github.com/sluiceproxy/sluice/algo"
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
	ticket, cause := l.begin(nowMicros)
	if cause != redis.NoCause {
		c.lease.Failed(nowMicros)
		return
	}
	w := &batchWaiter{l, c.lease, cost}
	c.lease.Asked(cost, l.conn.Add(w, 0, l.scripts[c.limits.Index], c.tag, cost))
	l.metrics.count(checkSent, 1)
	l.conn.Flush(ticket, nowMicros)
}

// batchWaiter waits for the units of one lease.
type batchWaiter struct {
	limiter *limiter
	lease   *lease.Lease
	units   int64
}

// Decided implements redis.Waiter.
func (w *batchWaiter) Decided(_ int, atMicros int64, decisions []algo.Decision, allowed bool) {
	if allowed {
		w.limiter.metrics.count(unitsTaken, w.units)
	}
	w.limiter.leases.Granted(w.lease, &decisions[0], allowed, atMicros, steadyMicros())
}

// Failed implements redis.Waiter. Units that are charged all the same are given
// back.
func (w *batchWaiter) Failed(redis.Cause) (outstanding int, giveBack bool) {
	w.lease.Failed(steadyMicros())
	return 0, true
}

// ReturnUnits implements lease.Returner.
func (l *limiter) ReturnUnits(held *lease.Lease, charge lease.Charge, units int64) {
	l.metrics.count(unitsReturned, units)
	l.conn.Refund(l.scripts[held.List], held.Tag, units, charge.Nonce, charge.StoreMicros, steadyMicros())
}
