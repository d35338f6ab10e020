package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// The way of a request through the stores, from top to bottom: it is asked about, Redis replies, it is
// concluded, and it ends. features.go says what rules and limits may have on the way.

// Ask asks the layers that answer at once. It reports whether the request can be concluded;
// otherwise Redis is to be asked.
func (s *Stores) Ask(q *Question, now Time) (decided bool) {
	s.before(q, now)
	for _, l := range s.order {
		if s.ask(l, q, now) {
			return true
		}
	}
	return s.alone()
}

// AskRedis asks Redis about the remaining checks. It reports whether the request can be concluded;
// otherwise a reply says when it can be.
func (s *Stores) AskRedis(q *Question, now Time) (decided bool) {
	q.waiting++ // a stream that ends meanwhile does not conclude the request
	if q.first(isUnasked) != nil {
		conn := s.remote.conn
		cause := conn.Begin(now.SteadyMicros)
		if q.kept.atMicros != 0 {
			conn.KeptBack(conn.ListeningMicros(now.SteadyMicros) - q.kept.atMicros)
		}
		for i := range q.Checks {
			c := &q.Checks[i]
			if c.Status != Unasked {
				continue
			}
			if cause != redis.NoCause {
				c.Status = Undecided
				continue
			}
			c.Status = Waiting
			q.waiting++
			q.inPipe++
			check := redis.Check{Script: s.remote.scripts[c.Limits.ID], Demand: c.Demand}
			s.sending(q, c, &check, now)
			c.charged.sent = sent{conn.Add(q, i, check), c.Demand}
			s.record.Count(metric.CheckSent, 1)
		}
		if cause == redis.NoCause {
			conn.Flush(now.SteadyMicros) // all of them in one write
		}
	}
	s.replenish(q, now) // lease.go
	q.waiting--
	return q.waiting == 0
}

// What Redis says of the checks that it was sent.

// Decided implements redis.Waiter: Redis' answer to a check. One that comes after the
// timeout still counts while the request has not been concluded.
func (q *Question) Decided(index int, r *redis.Reply, nowMicros int64) {
	s, c, now := q.home.stores, &q.Checks[index], Time{SteadyMicros: nowMicros}
	must.Hold(q.inPipe > 0 && q.waiting <= q.inPipe+1, "a reply is to a check that Redis was sent")
	q.inPipe--
	s.replied(q, c, r, now)
	was := &c.charged.sent
	if !q.concluded {
		expired := c.Status == Undecided
		s.answer(q, c, FromRedis, &r.Ruling, r.Decisions, was.nonce, now)
		if !expired {
			q.waitsLess()
		}
		return
	}
	// The failure mode has decided.
	if r.Allowed && r.By == algo.ByLimits {
		if taken, some := q.taken(was.Demand, &r.Ruling, r.Decisions); some {
			c.charged.late.fill(Receipt{Demand: taken, source: FromRedis, atMicros: r.AtMicros, nonce: was.nonce})
			if q.refused || !c.keepsLate() {
				s.GiveBack(&c.charged.late, now)
			}
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
		if c.Status != Waiting || !s.overrides.apply(q, c, r.Override) {
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
		q.waitsLess()
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
	q.waitsLess()
}

// waitsLess notes that one check waits no more. With the last of them the Worker takes the
// question up: see Worker.goOn.
func (q *Question) waitsLess() {
	must.Hold(q.waiting > 0 && !q.concluded, "an answer is to a check that waits")
	if q.waiting--; q.waiting == 0 {
		q.home.answered(q)
	}
}

// Conclude decides a question once none of its checks is waiting, and updates the stores: a
// request that is refused consumes nothing. The Worker acts on the verdict in Envoy.
func (s *Stores) Conclude(q *Question, now Time) Verdict {
	must.Hold(!q.concluded && q.waiting == 0, "a request is concluded once, when no check waits")
	if !s.alone() {
		s.inPlaceOfRedis(q, now) // features.go
	}
	v := q.Verdict()
	if q.asking != rule.NotForQuota && v.Event != Refused {
		v = q.served(v) // quota.go
	}
	q.concluded, q.verdict = true, v
	s.record.Concluded(q, v)
	q.refused = v.Event == Refused // what late replies turn out to have charged is given back, too
	if q.refused || q.has.concludes() {
		s.concluded(q, now) // features.go
	}
	return v
}

// Leave gives back all that a request has charged that never reached the upstream: see the
// effect GiveBack.
//
//go:noinline
func (s *Stores) Leave(q *Question, now Time) {
	must.Hold(q.concluded && !q.refused, "who leaves without a verdict, or refused, has nothing to give back here")
	q.refused = true
	for i := range q.Checks {
		s.giveAllBack(&q.Checks[i], now)
	}
	s.record.Count(metric.TurnExpired, 1)
}

// Unfinished reports whether the end of the request changes anything in the stores. For most
// it does not, and their end costs nothing.
func (q *Question) Unfinished() bool {
	switch q.state {
	case Held:
		return true
	case Passed, Redirected, Responded:
		return q.mustFinish()
	}
	return false
}

// Finish ends what an admitted request holds until it is over: its stream has ended,
// or it was admitted after that. If no response came, nothing is read, and resp may be nil.
//
//go:inline
func (s *Stores) Finish(q *Question, resp rule.Response, now Time) {
	must.Hold(!q.refused, "what a refused request held was given back at once")
	if q.mustFinish() {
		s.ended(q, resp, now) // features.go
	}
}
