package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/lru"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// This file is what a worker knows of rules with terms: the factors that operators
// have set, the rejections that penalties have not counted yet, and whom Redis was
// told nonsense about. All of it is bounded.

const (
	// factorMicros is how long a factor is remembered after Redis has confirmed it. It
	// only saves a second call: Redis is asked about it every time.
	factorMicros = 1_000_000
	maxFactors   = 4096

	// maxGroups bounds what is kept of the rejections of one identity: those that are
	// nearer to each other than a share of the penalty's window are told as one.
	maxGroups      = 16
	maxGroupMicros = 1_000_000 / maxGroups

	// minGroups is of how many identities rejections are kept at least: those from
	// memory, and those that were judged when all checks of their request had answers.
	minGroups = 4096

	// An operator who sets nonsense is told once for each of so many identities.
	maxTold     = 128
	tellAgainIn = 1_000_000
)

// factor is what an operator has multiplied an identity's limits by, in thousandths.
type factor struct{ thousandths, untilMicros int64 }

// group is some rejections from memory, the first of them at a time.
type group struct{ atMicros, count int64 }

// terms is the memory of a worker. The tables are by rule.Rule.Index; one is nil where
// no rule needs it.
type terms struct {
	factors    *lru.Table[factor]
	groups     *lru.Table[[]group]
	told       *lru.Table[bool]
	toldMicros int64          // when an operator was told last
	strikes    []algo.Strikes // scratch
}

func newTerms(cfg *config.Config, rules *rule.Set) (t terms) {
	for _, r := range rules.Rules {
		if r.Terms.Overrides && t.factors == nil {
			t.factors, t.told = lru.New[factor](maxFactors), lru.New[bool](maxTold)
		}
		if r.Terms.Penalty != nil && t.groups == nil {
			t.groups = lru.New[[]group](max(int(cfg.DenyCacheSize), minGroups))
		}
	}
	return t
}

// multiplyAll gives the checks the sizes that their identities' factors make, as far
// as the worker knows them.
func (s *Stores) multiplyAll(q *Question, now Time) {
	if s.terms.factors == nil {
		return
	}
	for i := range q.Checks {
		c := &q.Checks[i]
		if !c.Rule.Terms.Overrides {
			continue
		}
		if f := s.terms.factors.Get(c.Rule.Index, c.Tag); f != nil && now.SteadyMicros < f.untilMicros {
			q.multiply(c, f.thousandths)
		}
	}
}

// multiply gives a check the sizes that a factor makes of its own.
func (q *Question) multiply(c *Check, thousandths int64) {
	c.factor = thousandths
	begin := len(q.sizes)
	for i := range c.Limits.Limits {
		l := c.Limits.Limits[i].Limit
		if c.own != nil {
			l.Resize(c.own[i])
		}
		q.sizes = append(q.sizes, l.Times(thousandths))
	}
	c.Sizes = q.sizes[begin:len(q.sizes):len(q.sizes)]
}

func (s *Stores) rememberFactor(c *Check, thousandths, nowMicros int64) {
	f, _ := s.terms.factors.Put(c.Rule.Index, c.Tag)
	*f = factor{thousandths, nowMicros + factorMicros}
}

// learn takes what a reply says beside the decisions of a check's limits.
func (s *Stores) learn(c *Check, r *redis.Reply, nowMicros int64) {
	if c.Rule.Terms.Overrides {
		s.learnOverride(c, r, nowMicros)
	}
	earned := r.EarnedMicros > 0
	if r.By == algo.ByPenalty && c.tells { // a block that begins now is as long as blocks are
		earned = slices.Contains(c.Rule.Terms.Penalty.ForMicros, r.LeftMicros)
	}
	if earned {
		s.record.Count(metric.PenaltyEarned, 1)
	}
}

func (s *Stores) learnOverride(c *Check, r *redis.Reply, nowMicros int64) {
	switch {
	case r.By == algo.ByFree:
		s.record.Count(metric.OverrideFree, 1)
	case r.By == algo.ByBlock:
		s.record.Count(metric.OverrideBlock, 1)
	case r.By == algo.ByLimits && c.multiplied():
		s.record.Count(metric.OverrideFactor, 1)
		s.rememberFactor(c, c.factor, nowMicros)
	}
	if r.Ignored {
		s.record.Count(metric.OverrideIgnored, 1)
		s.tellIgnored(c, nowMicros)
	}
}

// multiplied reports whether an operator has changed the check's limits.
func (c *Check) multiplied() bool { return c.factor != 0 && c.factor != algo.NoFactor }

// tellIgnored tells operators, once for each identity, that what they have set is no
// override.
func (s *Stores) tellIgnored(c *Check, nowMicros int64) {
	t := &s.terms
	if t.told.Get(c.Rule.Index, c.Tag) != nil || t.toldMicros > 0 && nowMicros-t.toldMicros < tellAgainIn {
		return
	}
	t.told.Put(c.Rule.Index, c.Tag)
	t.toldMicros = nowMicros
	s.record.OverrideIgnored(c.Tag)
}

// mustDefer reports whether Redis must not count a rejection at once. Where several
// enforced rules are asked, one may reject as it is full of what other requests have
// charged that another rule rejects, and that is being given back: nobody's fault.
func (q *Question) mustDefer() bool {
	enforced := 0
	for i := range q.Checks {
		if q.Checks[i].Enforced() {
			enforced++
		}
	}
	return enforced > 1
}

// judge keeps the rejection of a request as a strike, if Redis has not counted it and
// no other rule rejects the request, too. It reports whether one does.
func (s *Stores) judge(q *Question, now Time) (several bool) {
	var only *Check
	for i := range q.Checks {
		c := &q.Checks[i]
		if !enforcedRejection(c) {
			continue
		}
		if only != nil {
			return true
		}
		only = c
	}
	if only != nil && (only.Source == FromMemory || only.Source == FromRedis && q.mustDefer()) {
		s.strike(only, now)
	}
	return false
}

// strikes reports whether it is a rejection that its rule's penalty may count. Where
// another rule rejects, too, it is not remembered either: later it would seem to be the
// only one.
func (c *Check) strikes() bool {
	return c.Rule.Terms.Penalty != nil && c.Status == Rejected && c.By == algo.ByLimits
}

// strike keeps a rejection for the penalty, which Redis counts with the identity's
// next call.
func (s *Stores) strike(c *Check, now Time) {
	penalty := c.Rule.Terms.Penalty
	if !c.strikes() {
		return
	}
	list, fresh := s.terms.groups.Put(c.Rule.Index, c.Tag)
	if fresh {
		*list = (*list)[:0]
	}
	near := min(penalty.WithinMicros/maxGroups, maxGroupMicros)
	if n := len(*list); n > 0 && (n == maxGroups || now.SteadyMicros-(*list)[n-1].atMicros < near) {
		(*list)[n-1].count++
		return
	}
	*list = append(*list, group{now.SteadyMicros, 1})
}

// kept is what is kept of the rejections of a check's identity, nil if nothing is.
func (t *terms) kept(c *Check) *[]group {
	if c.Rule.Terms.Penalty == nil || t.groups == nil {
		return nil
	}
	return t.groups.Get(c.Rule.Index, c.Tag)
}

// mustTell reports whether one more rejection earns the identity a block, by what this
// worker alone has rejected from memory: then Redis is asked at once.
func (s *Stores) mustTell(c *Check, now Time) bool {
	list := s.terms.kept(c)
	if list == nil {
		return false
	}
	penalty, sum := c.Rule.Terms.Penalty, int64(0)
	for _, g := range *list {
		if now.SteadyMicros-g.atMicros < penalty.WithinMicros {
			sum += g.count
		}
	}
	return sum > 0 && sum >= penalty.After-1
}

// tell is what a check tells Redis of: each rejection once. It is good until the next
// call.
func (s *Stores) tell(c *Check, now Time) []algo.Strikes {
	c.tells = false
	list := s.terms.kept(c)
	if list == nil {
		return nil
	}
	s.terms.strikes = s.terms.strikes[:0]
	for _, g := range *list {
		s.terms.strikes = append(s.terms.strikes, algo.Strikes{AgeMicros: now.SteadyMicros - g.atMicros, Count: g.count})
	}
	*list = (*list)[:0]
	c.tells = len(s.terms.strikes) > 0
	return s.terms.strikes
}

// accept makes a ruling the check's answer. decisions are those of the limits, if they
// have decided.
func (c *Check) accept(r *algo.Ruling, decisions []algo.Decision) {
	c.AtMicros, c.By, c.EarnedMicros = r.AtMicros, r.By, r.EarnedMicros
	c.Status = Rejected
	if r.Allowed {
		c.Status = Allowed
	}
	switch {
	case r.By.Blocks():
		c.block(r.By, r.LeftMicros)
	case r.By == algo.ByFree:
		for i := range c.Decisions {
			c.Decisions[i] = algo.Decision{Allowed: true}
		}
	default:
		copy(c.Decisions, decisions)
	}
}

// block makes all limits of a check reject, for as long as a block lasts.
func (c *Check) block(by algo.By, leftMicros int64) {
	c.Status, c.By, c.LeftMicros = Rejected, by, leftMicros
	reset := max(leftMicros, 0)
	for i := range c.Decisions {
		bounds := c.Limit(i).Bounds
		c.Decisions[i] = algo.Decision{
			ResetAfterMicros: reset, ResetBeforeMicros: reset, RetryAfterMicros: leftMicros,
			BeginsMicros: bounds[1], EndsMicros: bounds[2],
		}
	}
}
