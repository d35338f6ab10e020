package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// The layers are asked about a request, in order. This file and conclude.go alone know the order.

// layer is a layer that may answer a check at once.
type layer uint8

const (
	zeroLayer   layer = iota // a limit of 0, see zero.go
	onlyLayer                // the embedded store, where it is the only one: embedded.go
	leaseLayer               // units that this worker holds: leases.go
	memoryLayer              // rejections that it remembers: memory.go
)

// sources is who answers in each layer.
var sources = [...]Source{
	zeroLayer: FromLimit, onlyLayer: FromEmbedded, leaseLayer: FromLease, memoryLayer: FromMemory,
}

// orderOf is the order in which the layers are asked about a request that comes. Redis is
// asked behind them, and in mode local the embedded store behind that.
func orderOf(cfg *config.Config, rules *rule.Set) (order []layer) {
	order = append(order, zeroLayer)
	if cfg.Redis == nil {
		return append(order, onlyLayer)
	}
	if slices.ContainsFunc(rules.LimitSets, isLeased) {
		order = append(order, leaseLayer) // what was charged is spent first
	}
	return append(order, memoryLayer)
}

// Ask asks the layers that answer at once. It reports whether the request can be concluded;
// otherwise Redis is to be asked.
func (s *Stores) Ask(q *Question, now Time) (decided bool) {
	s.size(q, now)
	for _, l := range s.order {
		if s.ask(l, q, now) {
			return true
		}
	}
	return s.alone()
}

// fit gives a check the limits and sizes that an operator's override makes of those that came with
// the request, in the calendar windows around the time of the store that is asked.
func (s *Stores) fit(q *Question, c *Check, now Time) {
	s.overrides.fit(q, c, now)
	if c.Limits.Calendars != nil {
		s.calendars.fit(c.Limits, c.Sizes, s.remote.micros(now))
	}
}

// size fits all checks of a request.
func (s *Stores) size(q *Question, now Time) {
	for i := range q.Checks {
		s.fit(q, &q.Checks[i], now)
	}
}

// One layer is asked about the checks that have no answer.

// ask asks one layer about the checks of a question that have no answer. It reports whether the
// request can be concluded, as a rule rejects it: then no other layer is asked.
func (s *Stores) ask(l layer, q *Question, now Time) (rejects bool) {
	for i := range q.Checks {
		if c := &q.Checks[i]; isUnasked(c) {
			s.askAbout(c, l, q, now)
		}
	}
	rejects = q.first(rejectsAlone) != nil
	switch {
	case l != memoryLayer:
	case rejects || q.over && keepsRemembered(q):
		s.record.Count(metric.DenyCacheHit, 1)
		return true
	default: // a remembered decision that allows is shown with a rejection, but admits no request
		q.unask(FromMemory)
	}
	return rejects
}

// askAbout asks one layer about one check.
func (s *Stores) askAbout(c *Check, l layer, q *Question, now Time) {
	var r algo.Ruling
	var charge lease.Charge
	ok := false
	switch l {
	case zeroLayer:
		ok = c.rejectZero(c.Decisions)
	case leaseLayer:
		charge, ok = s.leases.spend(&c.Ask, c.Decisions, now)
		r = algo.Ruling{AtMicros: charge.StoreMicros, Allowed: true}
	case memoryLayer:
		s.askMemory(q, c, now)
	case onlyLayer:
		r, ok = s.embedded.decide(c, true, now)
	}
	if ok {
		q.answer(c, sources[l], &r, c.Decisions, charge.Nonce)
		s.slots.occupy(&c.charged.receipt, now.SteadyMicros)
	}
}

// The layer of limits that are 0. It has no state and asks no store.

// rejectZero reports whether a limit of the check is 0 and rejects it, and fills in what each
// limit says then.
func (a *Ask) rejectZero(out []algo.Decision) (rejects bool) {
	if !a.hasZero() {
		return false
	}
	for j := range out {
		out[j] = algo.Decision{Allowed: true} // it was not asked, and is not shown
		if l := a.Limit(j); l.Units == 0 && a.Costs[j] > 0 && !l.Guarantee {
			out[j] = algo.Decision{
				RetryAfterMicros: algo.Never, BeginsMicros: l.Bounds[1], EndsMicros: l.Bounds[2],
			}
		}
	}
	return true
}

// hasZero reports whether a limit of the check is 0, and it wants something of it. An
// operator may have freed the identity of that, a penalty counts it, and other limits may pay.
func (a *Ask) hasZero() bool {
	if a.Rule.HasTerms || a.Limits.Pays {
		return false
	}
	for j := range a.Costs {
		if l := a.Limit(j); l.Units == 0 && a.Costs[j] > 0 && !l.Guarantee { // who has none may borrow
			return true
		}
	}
	return false
}

// Redis is the connection to Redis, see redis.Conn.
type Redis interface {
	Crowded(most, nowMicros int64) bool
	Asked() (sent, answered uint64)
	ListeningMicros(nowMicros int64) int64
	Overloaded(nowMicros int64)
	Begin(nowMicros int64) redis.Cause
	KeptBack(micros int64)
	Add(w redis.Waiter, index int, check redis.Check) (nonce int64)
	Flush(nowMicros int64)
	Refund(charge redis.Charge, nowMicros int64)
	Settle(charge redis.Charge, back []int64, nowMicros int64)
	Release(script *redis.Script, tag []byte, slots redis.Slots, nowMicros int64)
	Renew(script *redis.Script, tag []byte, slots []redis.Slots, nowMicros int64)
	RedisMicros(nowMicros int64) (micros int64, known bool)
}

// remote is the layer of Redis: it knows the scripts that decide. Where no Redis is configured
// it is never asked: see orderOf.
type remote struct {
	conn    Redis
	scripts []*redis.Script // by rule.LimitSet.ID
	back    []int64         // scratch, for a settlement
}

func newRemote(cfg *config.Config, rules *rule.Set) (r remote) {
	if cfg.Redis == nil {
		return r
	}
	for _, set := range rules.LimitSets {
		r.scripts = append(r.scripts, redis.NewScript(set.Plan, cfg.Redis.KeyPrefix, set.KeySuffixes))
	}
	return r
}

// AskRedis asks Redis about the remaining checks. It reports whether the request can be concluded;
// otherwise Question.replied says when it can be.
func (s *Stores) AskRedis(q *Question, now Time) (decided bool) {
	q.waiting++ // a stream that ends meanwhile does not conclude the request
	if q.first(isUnasked) != nil {
		s.send(q, now)
	}
	for i := range q.Checks {
		if a := &q.Checks[i].Ask; a.lease != nil {
			s.replenish(a, now) // batch.go
		}
	}
	s.leases.returnStale(now)
	q.waiting--
	return q.waiting == 0
}

// send sends Redis the checks that have no answer yet, in one write. What becomes of them is in
// replies.go.
func (s *Stores) send(q *Question, now Time) {
	cause := s.remote.conn.Begin(now.SteadyMicros)
	if q.keptMicros != 0 {
		s.remote.conn.KeptBack(s.remote.conn.ListeningMicros(now.SteadyMicros) - q.keptMicros)
	}
	for i := range q.Checks {
		c := &q.Checks[i]
		if !isUnasked(c) {
			continue
		}
		if cause != redis.NoCause {
			c.Status = Undecided
			continue
		}
		c.Status = Waiting
		q.waiting++
		q.inPipe++
		c.charged.sent = s.remote.ask(q, i, s.penalties.tell(&c.Ask, now), q.mustDefer())
		s.record.Count(metric.CheckSent, 1)
	}
	if cause == redis.NoCause {
		s.remote.conn.Flush(now.SteadyMicros)
	}
}

// ask sends a check, between Begin and Flush of the connection. strikes are the rejections
// that Redis is told of, and deferred says whether it must not count its own.
func (r *remote) ask(q *Question, index int, strikes []algo.Strikes, deferred bool) sent {
	c := &q.Checks[index]
	nonce := r.conn.Add(q, index, redis.Check{
		Script: r.scripts[c.Limits.ID], Demand: c.Demand, MadeFor: c.madeFor(), Strikes: strikes, Deferred: deferred,
	})
	return sent{nonce, c.Demand}
}

func (r *remote) refund(of *Receipt, now Time) { r.conn.Refund(r.charge(of), now.SteadyMicros) }

func (r *remote) charge(of *Receipt) redis.Charge {
	return redis.Charge{
		Script: r.scripts[of.Limits.ID], Demand: of.Demand, Nonce: of.nonce, AtMicros: of.atMicros,
	}
}
