package decide

import (
	"math/rand/v2"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/lease"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// What rules and limits may have, in five moments of a request: before Redis is asked, as it is being
// asked, when it has replied, when the request is concluded, and when it has ended. This file alone names
// the features, and says in which order they come. Each has a file of its own.

// features is the state of each, by the feature's own type.
type features struct {
	// order is how the layers are asked about a request that comes. Redis is asked behind them, and in mode
	// local the embedded store behind that.
	order []layer
	of    [][]feature // limit sets, by rule.LimitSet.ID: nothing for a plain one

	calendars calendars
	overrides overrides
	leases    leases
	memory    memory
	penalties penalties
	slots     inFlight
	embedded  embedded
	burst     burst
}

// newStores makes the stores of a configuration. store may be nil if only Redis decides. chance
// is only drawn from before newStores returns.
func newStores(
	cfg *config.Config, rules *rule.Set, store *local.Store, host Host, record Recorder, chance rand.Source,
) *Stores {
	s := &Stores{host: host, record: record}
	s.order, s.of = append(s.order, zeroLayer), make([][]feature, len(rules.LimitSets))
	if cfg.Redis == nil {
		s.order = append(s.order, onlyLayer)
	} else {
		if slices.ContainsFunc(rules.LimitSets, isLeased) {
			s.order = append(s.order, leaseLayer) // what was charged is spent first
		}
		s.order = append(s.order, memoryLayer)
		for i, set := range rules.LimitSets {
			script := redis.NewScript(set.Plan, cfg.Redis.KeyPrefix, set.KeySuffixes)
			s.remote.scripts = append(s.remote.scripts, script)
			for f, has := range [...]bool{
				overrideFeature: hasOverrides(set.Rule), leaseFeature: isLeased(set), penaltyFeature: hasPenalty(set.Rule),
			} {
				if has {
					s.of[i] = append(s.of[i], feature(f))
				}
			}
		}
	}
	s.calendars, s.slots = newCalendars(rules), newInFlight(rules, chance)
	s.embedded = embedded{store: store, record: record, book: s.slots.book, entries: newEntries(rules)}
	s.leases = newLeases(cfg, rules, s, chance)
	s.overrides = newOverrides(cfg, rules, host, record, chance)
	s.penalties = newPenalties(cfg, rules, record, chance)
	s.memory = newMemory(cfg, rules, chance)
	s.burst.seed = chance.Uint64()
	return s
}

// feature is something that a limit set, or its rule, may have.
type feature uint8

const (
	overrideFeature feature = iota // operators may set other limits for an identity: override.go
	leaseFeature                   // workers hold units in advance: lease.go
	penaltyFeature                 // whoever is rejected often is blocked: penalty.go
)

// has is what some rule of a request has: a request whose rules have nothing of it is asked no more about it.
type has struct {
	settles  bool // a rule settles what it charged when the request is over: settle.go
	over     bool // a rule that can reject the request has an over: over.go
	enforced int  // rules that can reject the request: penalty.go
}

// concludes reports whether the end of the wait changes anything in the stores for a request that goes on.
//
//go:inline
func (h *has) concludes() bool { return h.over }

// note notes what a rule that applies has.
func (q *Question) note(c *Check, a *rule.Applied) {
	if a.Ahead != nil {
		q.overrides.ahead, c.ahead = keep(q.overrides.ahead, a.Ahead)
	}
	q.has.settles = q.has.settles || a.Rule.Settle != nil
	if a.Rule.Enforced {
		q.has.over = q.has.over || a.Rule.Over != nil
		q.has.enforced++
	}
}

// Before Redis is asked: what each check asks for, and who can answer it at once.

// before gives checks the limits and sizes that they have now.
func (s *Stores) before(q *Question, now Time) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Rule.Terms.Overrides {
			if _, ruled := s.overrides.fit(q, c, now); ruled {
				s.overrides.apply(q, c, nil) // Redis says so each time
			}
		}
		if c.Limits.Calendars != nil { // of the limits that the override has left
			micros := now.UnixMicros
			if !s.alone() {
				if told, known := s.remote.conn.RedisMicros(now.SteadyMicros); known {
					micros = told
				}
			}
			s.calendars.fit(c.Limits, c.Sizes, micros)
		}
	}
}

// layer is who may answer a check at once.
type layer uint8

const (
	zeroLayer   layer = iota // a limit of 0
	onlyLayer                // the embedded store, where it is the only one: local.go
	leaseLayer               // units that this worker holds: lease.go
	memoryLayer              // rejections that it remembers: memory.go
)

// sources is who answers in each layer.
var sources = [...]Source{zeroLayer: FromLimit, onlyLayer: FromEmbedded, leaseLayer: FromLease, memoryLayer: FromMemory}

// ask asks one layer about the checks of a question that have no answer. It reports whether the
// request can be concluded, as a rule rejects it: then no other layer is asked.
func (s *Stores) ask(l layer, q *Question, now Time) (rejects bool) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Status != Unasked {
			continue
		}
		var r algo.Ruling
		var charge lease.Charge
		ok := false
		switch l {
		case zeroLayer:
			ok = c.rejectsZero()
		case leaseLayer:
			charge, ok = s.leases.spend(&c.Ask, c.Decisions, now)
			r = algo.Ruling{AtMicros: charge.StoreMicros, Allowed: true}
		case memoryLayer:
			r, ok = s.recall(c, now)
		case onlyLayer:
			r, ok = s.embedded.decide(c, true, now)
		}
		if ok {
			s.answer(q, c, sources[l], &r, c.Decisions, charge.Nonce, now)
			rejects = rejects || enforcedRejection(c) && !c.Over
		}
	}
	switch {
	case l != memoryLayer:
	case rejects || q.has.over && q.first(isOpen) == nil:
		s.record.Count(metric.DenyCacheHit, 1)
		return true
	default: // a remembered decision that allows is shown with a rejection, but admits no request
		for i := range q.Checks {
			if c := &q.Checks[i]; c.Source == FromMemory {
				c.Said = Said{Decisions: c.Decisions}
			}
		}
	}
	return rejects
}

// isOpen reports whether a check has no answer yet but, at most, a remembered one that is not excused.
func isOpen(c *Check) bool { return !c.Decided() || c.Source == FromMemory && !c.Over }

// rejectsZero reports whether a limit of the check is 0 and rejects it, and fills in what each limit says
// then. An operator may have freed the identity of such a limit, a penalty counts it, and other limits may
// pay; who has no guarantee may borrow.
func (c *Check) rejectsZero() (rejects bool) {
	if c.Rule.HasTerms || c.Limits.Pays {
		return false
	}
	for i, cost := range c.Costs {
		l := &c.Limits.Limits[i]
		size := algo.Size{Units: l.Units}
		if c.Sizes != nil {
			size = c.Sizes[i]
		}
		if size.Units > 0 || cost == 0 || l.Guarantee {
			continue
		}
		for j := 0; !rejects && j < len(c.Decisions); j++ {
			c.Decisions[j] = algo.Decision{Allowed: true} // it was not asked, and is not shown
		}
		rejects = true
		c.Decisions[i] = algo.Decision{
			RetryAfterMicros: algo.Never, BeginsMicros: size.Bounds[1], EndsMicros: size.Bounds[2],
		}
	}
	return rejects
}

// As Redis is being asked.

// sending adds what the features of a check have Redis know.
func (s *Stores) sending(q *Question, c *Check, to *redis.Check, now Time) {
	for _, f := range s.of[c.Limits.ID] {
		switch f {
		case overrideFeature:
			to.MadeFor = c.madeFor()
		case penaltyFeature:
			to.Strikes, to.Deferred = s.penalties.tell(&c.Ask, now), q.mustDefer()
		}
	}
}

// When Redis has replied.

// replied has the features learn from a reply about a check, whatever becomes of its request.
func (s *Stores) replied(q *Question, c *Check, r *redis.Reply, now Time) {
	for _, f := range s.of[c.Limits.ID] {
		switch f {
		case overrideFeature:
			s.overrides.learn(&c.Ask, r, now.SteadyMicros)
		case leaseFeature:
			if c.lease != nil {
				c.lease.Heard(&r.Decisions[0], now.SteadyMicros)
			}
		case penaltyFeature:
			s.penalties.learn(&c.Ask, r, !q.concluded)
		}
	}
	if s.burst.on {
		s.burst.hear(c, r, c.lent || q.refused, now.SteadyMicros)
	}
}

// When the request is concluded: what decides in Redis' place, and what is remembered.

// inPlaceOfRedis decides what Redis has left undecided, as far as it can be: by what the worker remembers, by
// what Redis has said to others of a crowd, and in mode local by the embedded store.
func (s *Stores) inPlaceOfRedis(q *Question, now Time) {
	exceeds := false // what Redis has left, as far as it has said
	for _, source := range [...]Source{FromMemory, FromBurst, FromFallback} {
		undecided := false
		for i := range q.Checks {
			c := &q.Checks[i]
			if c.Status != Undecided {
				continue
			}
			var r algo.Ruling
			ok := false
			switch source {
			case FromMemory:
				if c.Rule.Excuses { // a remembered rejection stands
					r, ok = s.recall(c, now)
					ok = ok && !r.Allowed
				}
			case FromBurst:
				r, ok = s.burst.rejects(q, c, now)
			case FromFallback:
				if !exceeds && q.state != Gone && c.Rule.Enforced && c.Rule.Failure != config.FailDeny {
					s.burst.lend(q, c)
				}
				if c.Rule.Failure != config.FailLocal || !c.Rule.Enforced && !c.Rule.Reports {
					continue
				}
				if c.Rule.Terms.Overrides {
					r, ok = s.overrides.fit(q, c, now)
				}
				if !ok {
					if n := len(c.Sizes); n > 0 { // what Redis was sent keeps its calendar windows
						q.sizes = append(q.sizes, c.Sizes...)
						c.Sizes = q.sizes[len(q.sizes)-n:]
					}
					s.calendars.fit(c.Limits, c.Sizes, now.UnixMicros)
					r, ok = s.embedded.decide(c, false, now)
				}
			}
			if !ok {
				undecided = true
				continue
			}
			s.answer(q, c, source, &r, c.Decisions, 0, now)
			exceeds = exceeds || source == FromBurst && !c.Over
		}
		if source == FromBurst && q.kept.overdue && !exceeds {
			s.remote.conn.Overloaded(now.SteadyMicros)
		}
		if !undecided {
			return
		}
	}
}

// keepsLate reports whether the charge stands that a late reply tells of, if the request was admitted without
// it: this charge would never be settled, the request holds no slots of it, and a rule that is over charges
// nothing.
func (c *Check) keepsLate() bool {
	return c.Status != Rejected && c.Rule.Settle == nil && !c.charged.sent.Limits.HasSlots
}

// concluded remembers rejections and their strikes, and gives back the charges of a request that is refused.
// Strikes count before the charge is given back; the rejection is remembered as it is without the charge.
func (s *Stores) concluded(q *Question, now Time) {
	several := q.refused && q.verdict.Several
	for i := range q.Checks {
		c := &q.Checks[i]
		strikes := q.refused && c.Rule.Terms.Penalty != nil && c.Status == Rejected && c.By == algo.ByLimits
		if strikes {
			s.penalties.judge(c, several, q.mustDefer(), now)
		}
		if q.refused {
			s.giveAllBack(c, now)
		}
		// Of lists of limits that may pay for each other either may have room, unless both reject. On replay of a
		// rejection that counts towards a penalty only this rule would seem to reject.
		rejects := c.Status == Rejected
		if (q.refused && (rejects || !c.Limits.Pays) || c.Over && rejects) && !(strikes && several) {
			s.memory.remember(c, now)
		}
	}
	if q.has.over && !q.refused && q.state != Gone {
		q.setHeaders(s.host)
	}
}

// When the request has ended.

// mustFinish reports whether the stores hold something for the request until it is over.
//
//go:inline
func (q *Question) mustFinish() bool { return q.has.settles || q.first(occupiesSlots) != nil }

// ended settles what the checks have charged, and gives their slots back.
//
//go:noinline
func (s *Stores) ended(q *Question, resp rule.Response, now Time) {
	for i := range q.Checks {
		c := &q.Checks[i]
		r := &c.charged.receipt
		if settlement := c.Rule.Settle; settlement != nil && r.source != FromNone {
			s.settle(r, settlement.Worth(c.charged.heard, resp), now)
		}
		s.release(r, now)
		r.void()
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

// BreakerChanged implements redis.Observer.
func (o observer) BreakerChanged(state redis.BreakerState) {
	o.Recorder.BreakerChanged(state)
	if state == redis.Closed {
		o.stores.slots.book.Hurry() // none was renewed meanwhile
	}
}

// Tick passes time to what the stores hold.
func (s *Stores) Tick(now Time) {
	s.leases.book.Expire(now.SteadyMicros)
	s.leases.returnStale(now)
	if s.slots.book.Due(now.SteadyMicros) {
		s.slots.book.Renew(now.SteadyMicros, renewer{s, now})
		if !s.alone() {
			s.remote.conn.Flush(now.SteadyMicros) // the renewals
		}
	}
}

// nextMicros is how long until they wait for a tick; 0 if they do not.
func (s *Stores) nextMicros(nowMicros int64) int64 {
	return Sooner(s.leases.book.NextMicros(nowMicros), s.slots.book.NextMicros(nowMicros))
}

// Close gives back all that the leases hold, and what they will be given: the
// configuration ends, and the next one takes units of its own.
func (s *Stores) Close(now Time) { s.leases.book.Close(now.SteadyMicros) }
