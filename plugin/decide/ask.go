package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/deny"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// This file asks the stores about a request, in the order in which Ask does.

// Ask asks the stores about a request. It reports whether the question can be
// concluded; otherwise it waits for Redis, and Next brings it when it can be.
func (s *Stores) Ask(q *Question, now Time) (decided bool) {
	s.fitAll(q, now)
	if q.rejectByZero() {
		return true
	}
	s.multiplyAll(q, now)
	if s.conn == nil {
		for i := range q.Checks {
			if c := &q.Checks[i]; unanswered(c) {
				s.askEmbedded(c, FromEmbedded, now)
			}
		}
		return true
	}
	s.spend(q, now)
	if s.recall(q, now) {
		return true
	}
	if s.mustWait(q, now) {
		s.crowd.push(q)
		return false
	}
	s.askRedis(q, now)
	s.replenish(q, now)
	s.returnUnits(now)
	return q.waiting == 0
}

// rejectByZero answers the checks that a limit of 0 rejects: nobody needs to be
// asked. It reports whether an enforced rule rejects, which concludes the request.
func (q *Question) rejectByZero() (rejected bool) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if !c.hasZero() {
			continue
		}
		for j := range c.Decisions {
			if l := c.Limit(j); l.Units == 0 && c.Costs[j] > 0 {
				c.Decisions[j] = algo.Decision{
					RetryAfterMicros: algo.Never, BeginsMicros: l.Bounds[1], EndsMicros: l.Bounds[2],
				}
			} else {
				c.Decisions[j] = algo.Decision{Allowed: true} // it was not asked, and is not shown
			}
		}
		c.Status, c.Source = Rejected, FromLimit
		rejected = rejected || c.Enforced()
	}
	return rejected
}

// hasZero reports whether a limit of the check is 0, and it wants something of it. An
// operator may have freed the identity of that, and a penalty counts it.
func (c *Check) hasZero() bool {
	if c.Rule.HasTerms() {
		return false
	}
	for j := range c.Costs {
		if l := c.Limit(j); l.Units == 0 && c.Costs[j] > 0 {
			return true
		}
	}
	return false
}

// askEmbedded lets the embedded store decide a check. A store that cannot leaves
// the check Undecided.
func (s *Stores) askEmbedded(c *Check, source Source, now Time) {
	c.Status = Undecided
	c.Sizes, c.factor = c.own, 0 // what is set in Redis is in force there alone
	s.calendars.fit(c.Limits, c.Sizes, now.UnixMicros)
	plan := s.planOf(c.Limits, c.Sizes)
	s.embedded.Holding(s.heldLocally(c))
	ruling, err := s.embedded.Decide(plan, c.Tag, now.UnixMicros, c.Costs, c.Decisions, source == FromEmbedded)
	if err != nil {
		return
	}
	c.Source = source
	if c.accept(&ruling, c.Decisions); ruling.Allowed {
		c.receipt = receiptOf(c)
		s.hold(c, now.SteadyMicros)
	}
	if ruling.EarnedMicros > 0 {
		s.record.Count(metric.PenaltyEarned, 1)
	}
}

// planOf is the plan of limits, with the sizes that came with the request, if any
// did. It is good until the next call.
func (s *Stores) planOf(limits *rule.LimitSet, sizes []algo.Size) *algo.Plan {
	if sizes == nil {
		return limits.Plan
	}
	if sized, ok := limits.Plan.Sized(s.sized[limits.Index], sizes); ok {
		return sized
	}
	return limits.Plan // rule never makes such sizes
}

// Sized is a check's limits with the sizes that came with the request, nil if none
// did. It is good until other sizes of these limits are asked about.
func (s *Stores) Sized(c *Check) []algo.Limit {
	if c.Sizes == nil {
		return nil
	}
	return s.planOf(c.Limits, c.Sizes).Limits()
}

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
		c.Decisions[0], c.AtMicros, c.nonce = d, charge.StoreMicros, charge.Nonce
		c.Status, c.Source = Allowed, FromLease
		c.receipt = receiptOf(c)
	}
}

// recall looks for a rejection that is remembered. One is enough to conclude the
// request: Redis is not asked about it at all. What is remembered of its other rules
// is shown beside it.
func (s *Stores) recall(q *Question, now Time) (rejected bool) {
	if s.denied == nil {
		return false
	}
	for i := range q.Checks {
		c := &q.Checks[i]
		if !c.Enforced() || !unanswered(c) || c.Limits.HasSlots() {
			continue
		}
		e := s.denied.Find(c.Limits.Index, c.Tag)
		if e == nil {
			continue
		}
		known := s.recallCheck(c, e, now)
		rejected = rejected || known && c.Status == Rejected
	}
	if rejected {
		s.record.Count(metric.DenyCacheHit, 1)
	} else {
		s.unrecall(q)
	}
	return rejected
}

// recallCheck answers a check by what is remembered of its identity, if that says
// anything about it.
func (s *Stores) recallCheck(c *Check, e *deny.Entry, now Time) (known bool) {
	if block, lasts := e.Block(now.SteadyMicros); lasts {
		c.block(block.By, block.LeftMicros)
	} else if s.mustTell(c, now) {
		return false
	} else {
		asked := deny.Asked{Limits: s.planOf(c.Limits, c.Sizes).Limits(), Costs: c.Costs}
		rejects, known := e.Decide(asked, now.SteadyMicros, c.Decisions)
		if !known {
			return false
		}
		c.Status = Allowed
		if rejects {
			c.Status = Rejected
		}
	}
	c.Source, c.AtMicros = FromMemory, e.StoreMicros+now.SteadyMicros-e.AtMicros
	return true
}

// unrecall forgets what recall found: what was remembered beside a rejection admits
// nobody.
func (s *Stores) unrecall(q *Question) {
	for i := range q.Checks {
		if c := &q.Checks[i]; c.Source == FromMemory {
			c.Status, c.Source, c.By = Unasked, FromNobody, algo.ByLimits
		}
	}
}

// askRedis sends the checks that have no answer yet, in one write. It reports whether
// anything was sent.
func (s *Stores) askRedis(q *Question, now Time) (sent bool) {
	if q.first(unanswered) == nil {
		return false
	}
	cause, deferring := s.conn.Begin(now.SteadyMicros), s.terms.groups != nil && q.mustDefer()
	for i := range q.Checks {
		c := &q.Checks[i]
		if !unanswered(c) {
			continue
		}
		if cause != redis.NoCause {
			c.Status = Undecided
			continue
		}
		c.Status = Waiting
		q.waiting++
		q.inPipe++
		c.asked = c.Sizes
		c.nonce = s.conn.Add(q, i, redis.Charge{
			Script: s.scripts[c.Limits.Index], Tag: c.Tag, Costs: c.Costs, Sizes: c.Sizes,
			Factor: c.factor, Strikes: s.tell(c, now), Deferred: deferring,
		})
		s.record.Count(metric.CheckSent, 1)
	}
	if cause == redis.NoCause {
		s.conn.Flush(now.SteadyMicros)
	}
	return cause == redis.NoCause
}

func unanswered(c *Check) bool { return c.Status == Unasked }

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
	charge := redis.Charge{Script: s.scripts[c.Limits.Index], Tag: c.lease.Tag, Cost: order.Cost()}
	charge.Sizes = s.calendars.sizes(c.Limits.Index, s.storeMicros(now))
	w := &batch{stores: s, lease: c.lease, charge: charge}
	w.charge.Nonce = s.conn.Add(w, 0, charge)
	c.lease.Asked(order, w.charge.Nonce, now.SteadyMicros)
	s.record.Count(metric.CheckSent, 1)
	s.conn.Flush(now.SteadyMicros)
}

// Limit is one of the check's limits as it is for this request.
func (c *Check) Limit(i int) algo.Limit {
	l := c.Limits.Limits[i].Limit
	if c.Sizes != nil {
		l.Resize(c.Sizes[i])
	}
	return l
}

// receiptOf is what a check that was just allowed has charged.
func receiptOf(c *Check) Receipt {
	if !c.Charges() || c.By != algo.ByLimits {
		return Receipt{}
	}
	return Receipt{
		source: c.Source, limits: c.Limits, tag: c.Tag, costs: c.Costs, sizes: c.Sizes,
		atMicros: c.AtMicros, nonce: c.nonce, lease: c.lease,
	}
}
