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

// What rules and limits may have, in five moments of a request: before Redis is asked, as it is being
// asked, when it has replied, when the request is concluded, and when it has ended. This file alone names
// the features, and says in which order they come. Each has a file of its own.

// feature is something that a limit set, or its rule, may have.
type feature uint8

const (
	overrideFeature feature = iota // operators may set other limits for an identity: override.go
	leaseFeature                   // workers hold units in advance: lease.go
	penaltyFeature                 // whoever is rejected often is blocked: penalty.go
)

// featuresOf lists those of each limit set, by rule.LimitSet.ID: nothing for a plain one.
func featuresOf(cfg *config.Config, rules *rule.Set) [][]feature {
	all := make([][]feature, len(rules.LimitSets))
	for i, set := range rules.LimitSets {
		for f, has := range [...]bool{
			overrideFeature: hasOverrides(set.Rule), leaseFeature: isLeased(set), penaltyFeature: hasPenalty(set.Rule),
		} {
			if has && cfg.Redis != nil {
				all[i] = append(all[i], feature(f))
			}
		}
	}
	return all
}

// Before Redis is asked: what each check asks for, and who can answer it at once.

// before gives checks the limits and sizes that they have now.
func (s *Stores) before(q *Question, now Time) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Rule.Terms.Overrides {
			s.overrides.fit(q, c, now)
		}
		if c.Limits.Calendars != nil { // of the limits that the override has left
			s.calendars.fit(c.Limits, c.Sizes, s.remote.micros(now))
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
		}
	}
	rejects = q.first(rejectsAlone) != nil
	switch {
	case l != memoryLayer:
	case rejects || q.over && keepsRemembered(q):
		s.record.Count(metric.DenyCacheHit, 1)
		return true
	default: // a remembered decision that allows is shown with a rejection, but admits no request
		for i := range q.Checks {
			if c := &q.Checks[i]; c.Source == FromMemory {
				c.Status, c.Source = Unasked, FromNone
			}
		}
	}
	return rejects
}

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
	for _, f := range s.features[c.Limits.ID] {
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
	for _, f := range s.features[c.Limits.ID] {
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
					r, ok = s.overrides.inPlaceOfRedis(q, c, now)
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
			exceeds = exceeds || source == FromBurst && !(c.Rule.Excuses && c.By == algo.ByLimits)
		}
		if source == FromBurst && q.overdue && !exceeds {
			s.remote.conn.Overloaded(now.SteadyMicros)
		}
		if !undecided {
			return
		}
	}
}

// concluded remembers a check's rejection and its strikes, and gives back its charge if the request is refused.
// Strikes count before the charge is given back; the rejection is remembered as it is without the charge.
func (s *Stores) concluded(q *Question, c *Check, now Time) {
	several := q.refused && q.verdict.Several
	strikes := q.refused && c.Rule.Terms.Penalty != nil && c.Status == Rejected && c.By == algo.ByLimits
	if strikes {
		s.penalties.judge(c, several, q.mustDefer(), now)
	}
	if q.refused {
		s.giveAllBack(c, now)
	}
	// On replay of a rejection that counts towards a penalty only this rule would seem to reject.
	if (q.refused || c.Excused && c.Status == Rejected) && !(strikes && several) {
		s.memory.remember(c, now)
	}
}

// When the request has ended.

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
