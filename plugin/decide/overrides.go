package decide

import (
	"math/rand/v2"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/lru"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// What a worker knows of the overrides that operators have set: the factors, and which invalid
// ones were reported. All of it is bounded.

const (
	// factorMicros is how long a factor is remembered after Redis has confirmed it. It
	// only saves a second call: Redis is asked about it every time.
	//
	// Bound: us that an override's factor is remembered. Beyond it, a check takes two calls.
	// Protects operators from an old factor.
	factorMicros = 1_000_000
	// Bound: identities whose factor is remembered. Beyond it, a check of the one unused for
	// longest takes two calls. Protects memory.
	maxFactors = 4096

	// An operator who sets nonsense is told once for each of so many identities.
	//
	// Bound: identities of which the log says that their override is invalid. Beyond it, the one
	// unused for longest is told of again. Protects memory.
	maxToldIdentities = 128
	// Bound: us between two such lines. Below it, an invalid override is not logged. Protects the
	// log.
	tellAgainMicros = 1_000_000
)

// factor is an operator's multiple of an identity's limits, in thousandths.
type factor struct{ thousandths, untilMicros int64 }

// overrides is the layer that knows them. The tables are by rule.Rule.ID; where no rule has
// overrides they stay empty.
type overrides struct {
	record     Recorder
	factors    *lru.Table[rule.ID, factor]
	told       *lru.Table[rule.ID, bool]
	toldMicros int64 // when an operator was told last
}

func newOverrides(cfg *config.Config, rules *rule.Set, record Recorder, chance rand.Source) overrides {
	if cfg.Redis == nil || !slices.ContainsFunc(rules.Rules, hasOverrides) {
		return overrides{factors: &lru.Table[rule.ID, factor]{}, told: &lru.Table[rule.ID, bool]{}}
	}
	factors := lru.New[rule.ID, factor](maxFactors, chance.Uint64())
	told := lru.New[rule.ID, bool](maxToldIdentities, chance.Uint64())
	return overrides{record: record, factors: factors, told: told}
}

func hasOverrides(r *rule.Rule) bool { return r.Terms.Overrides }

// fit gives a check the sizes that its identity's factor makes, if the worker knows it.
func (o *overrides) fit(q *Question, a *Ask, now Time) {
	if !a.Rule.Terms.Overrides {
		return
	}
	if f := o.factors.Get(a.Rule.ID, a.Tag); f != nil && now.SteadyMicros < f.untilMicros && f.thousandths != a.factor {
		q.multiply(a, f.thousandths)
	}
}

// multiply gives a check the sizes that a factor makes of its own.
func (q *Question) multiply(a *Ask, thousandths int64) {
	must.Hold(thousandths > 0, "an operator's factor is above 0")
	a.factor = thousandths
	begin := len(q.sizes)
	for i := range a.Limits.Limits {
		l := a.Limits.Limits[i].Limit
		if a.own != nil {
			l.Resize(a.own[i])
		}
		q.sizes = append(q.sizes, l.Times(thousandths))
	}
	a.Sizes = q.sizes[begin:len(q.sizes):len(q.sizes)]
}

func (o *overrides) remember(a *Ask, thousandths, nowMicros int64) {
	f, _ := o.factors.Put(a.Rule.ID, a.Tag)
	must.Hold(thousandths > 0 && a.Rule.Terms.Overrides, "factors are of rules with overrides")
	*f = factor{thousandths, nowMicros + factorMicros}
}

// learn counts what a reply says of an override, and remembers a factor.
func (o *overrides) learn(a *Ask, r *redis.Reply, nowMicros int64) {
	if !a.Rule.Terms.Overrides {
		return
	}
	switch {
	case r.By == algo.ByFree:
		o.record.Count(metric.OverrideFree, 1)
	case r.By == algo.ByBlock:
		o.record.Count(metric.OverrideBlock, 1)
	case r.By == algo.ByLimits && a.multiplied():
		o.record.Count(metric.OverrideFactor, 1)
		o.remember(a, a.factor, nowMicros)
	}
	if r.Ignored {
		o.record.Count(metric.OverrideIgnored, 1)
		o.tell(a, nowMicros)
	}
}

// multiplied reports whether an operator has changed the check's limits.
func (a *Ask) multiplied() bool { return a.factor != 0 && a.factor != algo.NoFactor }

// tell warns operators, once for each identity, that its override is not valid.
func (o *overrides) tell(a *Ask, nowMicros int64) {
	if o.told.Get(a.Rule.ID, a.Tag) != nil || o.toldMicros > 0 && nowMicros-o.toldMicros < tellAgainMicros {
		return
	}
	o.told.Put(a.Rule.ID, a.Tag)
	o.toldMicros = nowMicros
	o.record.OverrideIgnored(a.Tag)
}
