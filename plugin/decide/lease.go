package decide

import (
	"math/rand/v2"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Leases: units of hot identities that Redis has given this worker.

// leases is the layer that spends them. It is asked before the memory of rejections: units in
// hand were charged already.
type leases struct {
	book *lease.Book
	// stale notes that another connection to Redis was opened in place of an earlier one, and
	// that the leases were not given back yet.
	stale bool
}

func newLeases(cfg *config.Config, rules *rule.Set, returner lease.Returner, chance rand.Source) leases {
	if cfg.Redis == nil || !slices.ContainsFunc(rules.LimitSets, isLeased) {
		return leases{book: &lease.Book{}}
	}
	return leases{book: lease.NewBook(returner, chance.Uint64())}
}

func isLeased(set *rule.LimitSet) bool {
	return slices.ContainsFunc(set.Limits, func(l config.Limit) bool { return l.Lease != nil })
}

// spend decides a check with a unit that this worker holds, if it holds one. The charge is the
// charge of the unit's batch.
func (l *leases) spend(a *Ask, out []algo.Decision, now Time) (charge lease.Charge, ok bool) {
	if len(a.Limits.Limits) == 0 {
		return charge, false
	}
	limit := &a.Limits.Limits[0]
	if limit.Lease == nil || a.Costs[0] == 0 {
		return charge, false
	}
	a.lease = l.book.Of(a.Limits.ID, a.Tag, limit, now.SteadyMicros)
	d, charge, ok := l.book.Spend(a.lease, now.SteadyMicros)
	if ok {
		out[0] = d
	}
	return charge, ok
}

// returnStale gives the units of all leases back once after a reconnect: data that was lost
// gives no credit for them, and data that was not takes them again.
func (l *leases) returnStale(now Time) {
	if l.stale {
		l.book.ReturnAll(now.SteadyMicros)
		l.stale = false
	}
}

// Batches of units that a lease is given, and gives back.

// replenish asks Redis for a batch of units for each lease of a question that wants one. The request
// does not wait for it.
func (s *Stores) replenish(q *Question, now Time) {
	for i := range q.Checks {
		a := &q.Checks[i].Ask
		if a.lease == nil {
			continue
		}
		units := a.lease.Wants(now.SteadyMicros)
		if units == 0 {
			continue
		}
		conn := s.remote.conn
		if conn.Begin(now.SteadyMicros) != redis.NoCause {
			a.lease.Failed(now.SteadyMicros)
			continue
		}
		check := redis.Check{
			Script: s.remote.scripts[a.Limits.ID], Cost: units, Over: a.lease.Over(),
			Demand: rule.Demand{Limits: a.Limits, Tag: a.lease.Tag, Sizes: slices.Clone(a.Sizes)},
		}
		w := &batch{stores: s, lease: a.lease, charge: redis.Charge{
			Script: check.Script, Demand: check.Demand, Cost: units, Batch: true,
		}}
		w.charge.Nonce = conn.Add(w, 0, check)
		a.lease.Asked(units, w.charge.Nonce, now.SteadyMicros)
		s.record.Count(metric.CheckSent, 1)
		conn.Flush(now.SteadyMicros)
	}
	s.leases.returnStale(now)
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
		s.memory.denied.Forget(b.lease.Set, b.lease.Tag)
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
	s.memory.denied.Forget(held.Set, held.Tag)
	s.remote.conn.Refund(redis.Charge{
		Script: s.remote.scripts[held.Set], Cost: units, Nonce: charge.Nonce, AtMicros: charge.StoreMicros, Batch: lent,
		Demand: rule.Demand{Tag: held.Tag, Sizes: s.calendars.sizes(held.Set, charge.StoreMicros)},
	}, nowMicros)
}
