package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// This file is what Redis is asked about a request, and what becomes of its answers.

// askRedis sends the checks that have no answer yet, in one write. It reports whether
// anything was sent.
func (s *Stores) askRedis(q *Question, now Time) (sent bool) {
	if q.first(unanswered) == nil {
		return false
	}
	cause, deferring := s.conn.Begin(now.SteadyMicros), s.penalties.groups != nil && q.mustDefer()
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

// Decided implements redis.Waiter: Redis' answer to a check. One that comes after the
// timeout still counts while the request has not been concluded.
func (q *Question) Decided(index int, r *redis.Reply, nowMicros int64) {
	s, c := q.stores, &q.Checks[index]
	q.inPipe--
	if c.lease != nil {
		c.lease.Heard(&r.Decisions[0], nowMicros)
	}
	if c.Rule.HasTerms() {
		s.learn(c, r, nowMicros)
	}
	if q.concluded {
		s.late(q, c, r, nowMicros)
		return
	}
	expired := c.Status == Undecided
	c.answer(FromRedis, &r.Ruling, r.Decisions)
	s.hold(c, nowMicros)
	if !expired {
		q.answered()
	}
}

// learn takes what a reply says beside the decisions of a check's limits.
func (s *Stores) learn(c *Check, r *redis.Reply, nowMicros int64) {
	if c.Rule.Terms.Overrides {
		s.learnOverride(c, r, nowMicros)
	}
	if c.Rule.Terms.Penalty != nil {
		s.learnPenalty(c, r)
	}
}

// late takes an answer to a check that the failure mode has taken care of. What it
// charged stands if the request was admitted all the same, unless its rule settles or
// has slots: then it would count for whoever is given back what is not kept, and the
// request holds none.
func (s *Stores) late(q *Question, c *Check, r *redis.Reply, nowMicros int64) {
	if r.Allowed && r.By == algo.ByLimits && c.Charges() {
		c.late = Receipt{
			source: FromRedis, limits: c.Limits, tag: c.Tag, costs: c.Costs, sizes: c.asked,
			atMicros: r.AtMicros, nonce: c.nonce,
		}
		if q.refused || c.Rule.Settle != nil || c.Limits.HasSlots() {
			s.GiveBack(&c.late, Time{SteadyMicros: nowMicros})
		}
	}
	s.Release(q)
}

// Resize implements redis.Waiter: the calendar windows around Redis' true time, or the
// sizes of another factor than the worker knows.
func (q *Question) Resize(index int, r *redis.Reply, nowMicros int64) []algo.Size {
	s, c := q.stores, &q.Checks[index]
	if r.Factor == 0 && c.Limits.Calendars == nil {
		return nil
	}
	if r.Factor != 0 {
		s.rememberFactor(c, r.Factor, nowMicros)
		if c.Status != Waiting { // it is not sent again
			return notSent
		}
		q.multiply(c, r.Factor)
		c.asked = c.Sizes
	}
	s.calendars.fit(c.Limits, c.asked, r.AtMicros)
	return c.asked
}

// notSent are sizes that nobody is asked with.
var notSent = make([]algo.Size, 1)

// Expired implements redis.Waiter: the timeout has passed.
func (q *Question) Expired(index int, _ int64) {
	if c := &q.Checks[index]; c.Status == Waiting {
		c.Status = Undecided
		q.answered()
	}
}

// Failed implements redis.Waiter: Redis never decides this check.
func (q *Question) Failed(index int, _ redis.Cause, _ int64) {
	c := &q.Checks[index]
	q.inPipe--
	if c.Status != Waiting {
		q.stores.Release(q)
		return
	}
	c.Status = Undecided
	q.answered()
}

// answered notes that one check waits no more. While the request's own callback
// runs, that callback concludes it.
func (q *Question) answered() {
	if q.waiting--; q.waiting == 0 && q.state != Arriving {
		q.stores.ready.push(q)
	}
}
