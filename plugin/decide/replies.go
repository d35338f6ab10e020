package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// How Redis' answers to AskRedis reach their checks.

// Decided implements redis.Waiter: Redis' answer to a check. One that comes after the
// timeout still counts while the request has not been concluded.
func (q *Question) Decided(index int, r *redis.Reply, nowMicros int64) {
	s, c := q.home.stores, &q.Checks[index]
	must.Hold(q.inPipe > 0 && q.waiting <= q.inPipe+1, "a reply is to a check that Redis was sent")
	q.inPipe--
	s.leases.heard(&c.Ask, r, nowMicros)
	s.overrides.learn(&c.Ask, r, nowMicros)
	s.penalties.learn(&c.Ask, r)
	if s.burst.on {
		s.burst.hear(c, r, c.lent || q.refused, nowMicros)
	}
	if q.concluded {
		q.late(c, r, nowMicros)
		return
	}
	expired := c.Status == Undecided
	c.ruled(FromRedis, &r.Ruling, r.Decisions, c.charged.sent.nonce)
	s.slots.occupy(&c.charged.receipt, nowMicros)
	if c.Status == Allowed {
		s.penalties.admitted(&c.Ask)
	}
	if !expired {
		q.replied()
	}
}

// late takes an answer to a check that the failure mode has already decided. If the request was
// admitted anyway, the charge stands. If its rule settles, this charge would never be settled;
// if it has slots, the request holds none; if the rule is over, it charges nothing: then late gives
// the charge back.
func (q *Question) late(c *Check, r *redis.Reply, nowMicros int64) {
	if was := &c.charged.sent; r.Allowed && r.By == algo.ByLimits && charges(was.costs) {
		asked := Ask{
			Rule: c.Rule, Limits: was.limits, Tag: c.Tag, Values: was.values, Costs: was.costs, borrowing: was.borrowing,
		}
		c.charged.late.fill(asked.receiptOf(FromRedis, was.sizes, r.Decisions, r.AtMicros, was.nonce))
		if q.refused || c.Status == Rejected || c.Rule.Settle != nil || was.limits.HasSlots() {
			q.home.stores.GiveBack(&c.charged.late, Time{SteadyMicros: nowMicros})
		}
	}
	q.home.recycle(q)
}

// Remake implements redis.Waiter: the check gets the calendar windows around Redis' true time, or
// becomes what another override than the worker knew makes of it.
func (q *Question) Remake(index int, r *redis.Reply, check *redis.Check, nowMicros int64) redis.Remade {
	s, c := q.home.stores, &q.Checks[index]
	if !r.OtherOverride && c.Limits.Calendars == nil {
		return redis.NoSense
	}
	was := &c.charged.sent
	if r.OtherOverride {
		s.overrides.remember(&c.Ask, r.Override, r.LeftMicros, nowMicros)
		if c.Status != Waiting || !s.overrides.make(q, c, r.Override) {
			return redis.NotAgain
		}
		was.limits, was.values, was.costs, was.borrowing, was.sizes = c.Limits, c.Values, c.Costs, c.borrowing, c.Sizes
	}
	s.calendars.fit(was.limits, was.sizes, r.AtMicros)
	*check = redis.Check{
		Script: s.remote.scripts[was.limits.ID], Values: was.values, Costs: was.costs, Sizes: was.sizes, MadeFor: c.madeFor(),
	}
	return redis.Again
}

// Expired implements redis.Waiter: the timeout has passed.
func (q *Question) Expired(index int, _ int64) {
	if c := &q.Checks[index]; c.Status == Waiting {
		c.Status = Undecided
		q.replied()
	}
}

// Failed implements redis.Waiter: Redis never decides this check.
func (q *Question) Failed(index int, _ redis.Cause, _ int64) {
	c := &q.Checks[index]
	q.inPipe--
	if c.Status != Waiting {
		q.home.recycle(q)
		return
	}
	c.Status = Undecided
	q.replied()
}

// replied notes that one check waits no more. With the last of them the Worker takes the
// question up: see Worker.goOn.
func (q *Question) replied() {
	must.Hold(q.waiting > 0 && !q.concluded, "an answer is to a check that waits")
	if q.waiting--; q.waiting == 0 {
		q.home.answered(q)
	}
}
