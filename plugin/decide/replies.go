package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

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
	c.Source = FromRedis
	if c.accept(&r.Ruling, r.Decisions); r.Allowed {
		c.receipt = receiptOf(c)
		s.hold(c, nowMicros)
	}
	if !expired {
		q.answered()
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

// Next is the next question that can go on: first those that can be concluded, in
// the order in which they became so, then those whose turn in a queue has come.
// The event is Waits for a question to conclude, and TurnComes.
func (s *Stores) Next(now Time) (q *Question, e Event) {
	if q = s.ready.pop(); q != nil {
		return q, Waits
	}
	if q = s.askCrowd(now); q != nil {
		return q, Waits
	}
	return s.queue.next(now.SteadyMicros), TurnComes
}

// Hold queues a question until its turn comes.
func (s *Stores) Hold(q *Question, delayMicros int64, now Time) {
	s.record.Count(metric.RequestHeld, 1)
	s.queue.hold(q, now.SteadyMicros+delayMicros)
}

// RequestFailed implements redis.Observer.
func (s *Stores) RequestFailed(cause redis.Cause) { s.record.RedisFailed(cause) }

// RoundTrip implements redis.Observer.
func (s *Stores) RoundTrip(micros int64) { s.record.RoundTrip(micros) }

// Refunded implements redis.Observer.
func (s *Stores) Refunded() { s.record.Count(metric.ChargeRefunded, 1) }

// BreakerChanged implements redis.Observer.
func (s *Stores) BreakerChanged(state redis.BreakerState) {
	s.record.BreakerChanged(state)
	if state == redis.Closed && s.slots != nil {
		s.slots.Hurry() // none was renewed meanwhile
	}
}

// Reconnected implements redis.Observer. Who answers now may hold none of the
// charges behind what is remembered, nor behind the leases.
func (s *Stores) Reconnected() {
	s.record.Count(metric.Reconnected, 1)
	s.reconnected = true
	if s.denied != nil {
		s.denied.Clear()
	}
	if s.slots != nil {
		s.slots.Hurry()
	}
}
