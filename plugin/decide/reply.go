package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
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
	q.answer(c, FromRedis, &r.Ruling, r.Decisions, c.charged.sent.nonce)
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
	if was := &c.charged.sent; r.Allowed && r.By == algo.ByLimits && was.Charges() {
		c.charged.late.fill(Receipt{
			Demand: q.taken(was.Demand, r.Decisions), source: FromRedis, atMicros: r.AtMicros, nonce: was.nonce,
		})
		if q.refused || c.Status == Rejected || c.Rule.Settle != nil || was.Limits.HasSlots {
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
		was.Demand = c.Demand
	}
	s.calendars.fit(was.Limits, was.Sizes, r.AtMicros)
	*check = redis.Check{Script: s.remote.scripts[was.Limits.ID], Demand: was.Demand, MadeFor: c.madeFor()}
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

// How a store's ruling becomes the answer of a check, and its charge a receipt.

// answer notes what a store says of a check. decisions are those of the limits, if they have decided, and
// nonce is of the charge, if it has one.
func (q *Question) answer(c *Check, source Source, r *algo.Ruling, decisions []algo.Decision, nonce int64) {
	must.Hold(!c.Decided() && source != FromNone, "a check is decided once")
	c.Source, c.AtMicros, c.By, c.EarnedMicros = source, r.AtMicros, r.By, r.EarnedMicros
	c.Status, c.Excused = Rejected, r.Over
	if r.Allowed {
		c.Status = Allowed
	}
	switch {
	case r.By.Blocks():
		c.block(r.LeftMicros)
	case r.By == algo.ByFree:
		for i := range c.Decisions {
			c.Decisions[i] = algo.Decision{Allowed: true}
		}
	default:
		copy(c.Decisions, decisions)
		if r.Allowed && source != FromMemory && c.Charges() { // memory charges nothing
			c.charged.receipt.fill(Receipt{
				Demand: q.taken(c.Demand, c.Decisions), source: source, atMicros: r.AtMicros, nonce: nonce, lease: c.lease,
			})
		}
	}
	if c.Values != nil {
		c.hideAbsent()
	}
}

// taken is a demand with what the limits charge that have admitted it with these decisions.
func (q *Question) taken(d rule.Demand, decisions []algo.Decision) rule.Demand {
	if d.Limits.Plan.ChargesAll() {
		return d
	}
	q.costs, d.Costs = keep(q.costs, d.Costs)
	for i := range d.Costs {
		if !d.Limits.Plan.Charges(i, decisions) {
			d.Costs[i] = 0
		}
	}
	return d
}

// block makes all limits of a check reject, for as long as a block lasts.
func (c *Check) block(leftMicros int64) {
	c.LeftMicros = leftMicros
	reset := max(leftMicros, 0)
	for i := range c.Decisions {
		bounds := algo.Bounds{}
		if c.Sizes != nil {
			bounds = c.Sizes[i].Bounds
		}
		c.Decisions[i] = algo.Decision{
			ResetAfterMicros: reset, ResetBeforeMicros: reset, RetryAfterMicros: leftMicros,
			BeginsMicros: bounds[1], EndsMicros: bounds[2],
		}
	}
}

// hideAbsent hides the limits that do not apply, as the request has no value for their "per".
func (c *Check) hideAbsent() {
	for i := range c.Decisions {
		if _, applies := c.Limits.ValuesOf(c.Values, i); !applies {
			c.Decisions[i] = algo.Decision{Allowed: true, Hidden: true}
		}
	}
}

// fill makes r the receipt of a charge. What it was the receipt of has been given back.
func (r *Receipt) fill(with Receipt) {
	must.Hold(r.source == FromNone, "a receipt is not overwritten: its charge would be lost")
	*r = with
	if must.On {
		r.self = r
	}
}

// Decided reports whether a store decided the check.
//
//go:inline
func (s *Said) Decided() bool { return s.Status == Allowed || s.Status == Rejected }

// observer is the Recorder, and the Stores, as those who are told what happens to the connection.
type observer struct {
	Recorder
	stores *Stores
}

// BreakerChanged implements redis.Observer.
func (o observer) BreakerChanged(state redis.BreakerState) {
	o.Recorder.BreakerChanged(state)
	if state == redis.Closed {
		o.stores.slots.book.Hurry() // none was renewed meanwhile
	}
}

// Reconnected implements redis.Observer. The Redis that answers now may lack the charges behind
// the remembered rejections and the leases.
func (o observer) Reconnected() {
	o.Count(metric.Reconnected, 1)
	o.stores.leases.stale = true
	o.stores.memory.denied.Clear()
	o.stores.slots.book.Hurry()
}
