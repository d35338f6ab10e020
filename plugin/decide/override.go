package decide

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/lru"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/override"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// What a worker knows of the overrides that operators have set: their values, and which invalid
// ones were reported. All of it is bounded. Redis compares each call's override with the one that
// is set, so what the worker remembers saves a second call, and is never wrong.

const (
	// Bound: identities whose override is remembered. Beyond it, a check of the one unused for
	// longest takes two calls. Protects memory.
	maxKnown = 10_000
	// Bound: bytes of the overrides that are remembered. Beyond it, those unused for longest are
	// forgotten, and a check takes two calls. Protects memory.
	maxKnownBytes = 1 << 20

	// Bound: identities of which the log says that their override is invalid. Beyond it, the one
	// unused for longest is told of again. Protects memory.
	maxToldIdentities = 128
	// Bound: us between two such lines. Below it, an invalid override is not logged. Protects the
	// log.
	tellAgainMicros = 1_000_000
)

// known is an identity's override, as Redis has told it last.
type known struct {
	value       []byte // empty: it has none, or it was forgotten
	untilMicros int64  // when it ends by itself
}

// overrides is the layer that knows them. The tables are by rule.Rule.ID; where no rule has
// overrides they stay empty.
type overrides struct {
	record     Recorder
	host       Host
	rules      *rule.Set
	matcher    rule.Matcher // reads what another tier takes of a request
	known      *lru.Table[rule.ID, known]
	knownBytes int
	told       *lru.Table[rule.ID, bool]
	toldMicros int64 // when an operator was told last
}

func newOverrides(cfg *config.Config, rules *rule.Set, host Host, record Recorder, chance rand.Source) overrides {
	if cfg.Redis == nil || !slices.ContainsFunc(rules.Rules, hasOverrides) {
		return overrides{known: &lru.Table[rule.ID, known]{}, told: &lru.Table[rule.ID, bool]{}}
	}
	values := lru.New[rule.ID, known](maxKnown, chance.Uint64())
	told := lru.New[rule.ID, bool](maxToldIdentities, chance.Uint64())
	return overrides{record: record, host: host, rules: rules, known: values, told: told}
}

func hasOverrides(r *rule.Rule) bool { return r.Terms.Overrides }

// remember keeps an override that Redis has told, and for how long it lasts.
func (o *overrides) remember(a *Ask, value []byte, leftMicros, nowMicros int64) {
	must.Hold(a.Rule.Terms.Overrides, "overrides are of rules that read them")
	k, _ := o.known.Put(a.Rule.ID, a.Tag)
	o.knownBytes += len(value) - len(k.value)
	if cap(k.value) < len(value) || cap(k.value) > 2*len(value) { // what another one leaves may be long
		k.value = make([]byte, 0, len(value))
	}
	k.value, k.untilMicros = append(k.value[:0], value...), math.MaxInt64
	if leftMicros != algo.Never {
		k.untilMicros = nowMicros + leftMicros
	}
	for o.knownBytes > maxKnownBytes {
		oldest := o.known.Oldest()
		o.knownBytes -= len(oldest.value)
		oldest.value = nil
	}
}

// forget notes that an identity has no override any more.
func (o *overrides) forget(a *Ask) {
	if k := o.known.Get(a.Rule.ID, a.Tag); k != nil {
		o.knownBytes -= len(k.value)
		k.value = k.value[:0]
	}
}

// learn counts what a reply says of an override, and keeps it. Where the limits have decided, the override
// that the check was sent with is in force.
func (o *overrides) learn(a *Ask, r *redis.Reply, nowMicros int64) {
	switch r.By {
	case algo.ByFree:
		o.record.Count(metric.OverrideFree, 1)
		o.keep(a, "free", r.LeftMicros, nowMicros)
		return
	case algo.ByBlock:
		o.record.Count(metric.OverrideBlock, 1)
		o.keep(a, "block", r.LeftMicros, nowMicros)
		return
	case algo.ByPenalty:
		return
	}
	ignored, kind := r.Ignored, override.None
	if a.made != nil {
		kind = a.made.kind
	}
	switch kind {
	case override.None:
		o.forget(a)
	case override.Factor:
		o.record.Count(metric.OverrideFactor, 1)
	case override.Tier:
		o.record.Count(metric.OverrideTier, 1)
	case override.Numbers:
		o.record.Count(metric.OverrideNumbers, 1)
	default:
		ignored = true
	}
	if !ignored {
		return
	}
	o.record.Count(metric.OverrideIgnored, 1)
	// Operators are told once of each identity, and not of many at once.
	if o.told.Get(a.Rule.ID, a.Tag) == nil && (o.toldMicros == 0 || nowMicros-o.toldMicros >= tellAgainMicros) {
		o.told.Put(a.Rule.ID, a.Tag)
		o.toldMicros = nowMicros
		o.record.OverrideIgnored(a.Tag)
	}
}

// keep remembers what matters only while Redis is away.
func (o *overrides) keep(a *Ask, value string, leftMicros, nowMicros int64) {
	if a.Rule.Failure == config.FailLocal {
		o.remember(a, text.Bytes(value), leftMicros, nowMicros)
	} else {
		o.forget(a)
	}
}

// How an override changes a check, and how the check gets back what it came with. All checks of a question
// share its memory.

// overridden is what a check keeps of its own, whatever an override makes of it.
type overridden struct {
	own   []algo.Size // came with the request, in the calendar windows around its time
	made  *made       // nil: no override is known
	ahead rule.Ahead  // what another tier may need of the request
}

// overrideMemory is the memory of all checks.
type overrideMemory struct {
	list  []made
	ahead rule.Ahead
}

// made is the override in force for a check, and the check before it.
type made struct {
	value []byte // as Redis has it; empty: none
	kind  override.Kind

	came      rule.Demand
	decisions []algo.Decision
}

// madeFor is the override that a check was made for; empty: none.
func (a *Ask) madeFor() []byte {
	if a.made == nil {
		return nil
	}
	return a.made.value
}

// apply restores the original check, and applies an override to it. ok is false if the override is a tier
// that needs values of the request which cannot be read any more: then the check stays as it came.
func (o *overrides) apply(q *Question, c *Check, value []byte) (ok bool) {
	if text.Equal(value, c.madeFor()) {
		return true
	}
	if c.made == nil {
		c.Sizes = c.own
		q.overrides.list = append(q.overrides.list, made{came: c.Demand, decisions: c.Decisions})
		c.made = &q.overrides.list[len(q.overrides.list)-1]
	}
	m, to, begin := c.made, override.Parse(text.View(value)), len(q.sizes)
	c.Demand, c.own, c.Decisions, m.kind = m.came, m.came.Sizes, m.decisions, to.Kind
	var tier rule.Applied
	sized := false
	ok = true
	switch to.Kind {
	case override.Tier:
		limits := o.rules.Tier(c.Rule.ID, to.Rest)
		switch {
		case limits == nil:
			m.kind = override.Nonsense
		case limits == c.Limits:
		case q.state == Gone || q.state == Ended:
			value, m.kind, ok = nil, override.None, false
		default:
			tier = o.rules.ApplyAs(o.host.Request(q.ContextID), &o.matcher, limits, c.ahead)
			if c.Rule.Reports {
				clear(tier.Costs)
			}
		}
	case override.Numbers, override.Factor:
		if q.sizes, sized = c.Limits.SizesOf(q.sizes, c.own, to); !sized {
			m.kind = override.Nonsense
		}
	}
	q.tags, m.value = keep(q.tags, value)
	switch {
	case tier.Limits != nil:
		q.keep(c, &tier.Demand)
	case sized:
		c.Sizes = q.sizes[begin:len(q.sizes):len(q.sizes)]
	default:
		q.sizes, c.Sizes = keep(q.sizes, c.own) // what Redis was sent stays as it was
	}
	return ok
}

// fit applies the override of its identity to a check, as far as the worker knows it. If that is free or a
// block, ok is true, with the ruling where Redis does not decide, and the check stays as it was.
func (o *overrides) fit(q *Question, c *Check, now Time) (r algo.Ruling, ok bool) {
	var value []byte
	if k := o.known.Get(c.Rule.ID, c.Tag); k != nil && now.SteadyMicros < k.untilMicros {
		value = k.value
		r = algo.Ruling{AtMicros: now.UnixMicros, By: algo.ByBlock, LeftMicros: k.untilMicros - now.SteadyMicros}
		if k.untilMicros == math.MaxInt64 {
			r.LeftMicros = algo.Never
		}
	}
	switch override.Parse(text.View(value)).Kind {
	case override.Free:
		r.By, r.Allowed = algo.ByFree, true
		return r, true
	case override.Block:
		return r, true
	}
	o.apply(q, c, value)
	return algo.Ruling{}, false
}
