package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/lru"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// This file is what a worker knows of what operators have set: the factors, and whom Redis
// was told nonsense about. All of it is bounded.

const (
	// factorMicros is how long a factor is remembered after Redis has confirmed it. It
	// only saves a second call: Redis is asked about it every time.
	factorMicros = 1_000_000
	maxFactors   = 4096

	// An operator who sets nonsense is told once for each of so many identities.
	maxTold     = 128
	tellAgainIn = 1_000_000
)

// factor is what an operator has multiplied an identity's limits by, in thousandths.
type factor struct{ thousandths, untilMicros int64 }

// overrides is a worker's memory of them. The tables are by rule.Rule.Index; nil where no
// rule has overrides.
type overrides struct {
	factors    *lru.Table[factor]
	told       *lru.Table[bool]
	toldMicros int64 // when an operator was told last
}

func newOverrides(rules *rule.Set) (o overrides) {
	for _, r := range rules.Rules {
		if r.Terms.Overrides && o.factors == nil {
			o.factors, o.told = lru.New[factor](maxFactors), lru.New[bool](maxTold)
		}
	}
	return o
}

// multiplyAll gives the checks the sizes that their identities' factors make, as far
// as the worker knows them.
func (s *Stores) multiplyAll(q *Question, now Time) {
	if s.overrides.factors == nil {
		return
	}
	for i := range q.Checks {
		c := &q.Checks[i]
		if !c.Rule.Terms.Overrides {
			continue
		}
		if f := s.overrides.factors.Get(c.Rule.Index, c.Tag); f != nil && now.SteadyMicros < f.untilMicros {
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
	f, _ := s.overrides.factors.Put(c.Rule.Index, c.Tag)
	*f = factor{thousandths, nowMicros + factorMicros}
}

// learnOverride counts what a reply says of an override, and remembers a factor.
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
	t := &s.overrides
	if t.told.Get(c.Rule.Index, c.Tag) != nil || t.toldMicros > 0 && nowMicros-t.toldMicros < tellAgainIn {
		return
	}
	t.told.Put(c.Rule.Index, c.Tag)
	t.toldMicros = nowMicros
	s.record.OverrideIgnored(c.Tag)
}
