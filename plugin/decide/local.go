package decide

import (
	"math"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/override"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/slots"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// embedded is the layer of the embedded store: where no Redis is configured it answers all
// checks, else those that Redis failed in mode local. It may be contended. What it was to be
// given back is charged then until it expires, and of slots it hears with the next call.
type embedded struct {
	store   *local.Store
	record  Recorder
	book    *slots.Book // knows the slots that the worker occupies in it
	plans   plans       // scratch
	entries [][]entry   // by rule.LimitSet.ID, parallel to its Parts

	// Scratch, of a part.
	name      []byte
	sizes     []algo.Size
	costs     []int64
	decisions []algo.Decision
}

// occupied is how many slots the worker has of a part of an identity.
func (e *embedded) occupied(limits *rule.LimitSet, part []byte) int64 {
	if !limits.HasSlots {
		return 0
	}
	return e.book.Held(limits.ID, part, true)
}

// In the embedded store each part of an identity has an entry of its own. They are charged one
// after the other, and given back where a later one rejects: never too many are admitted.

// entry is the limits of one part, as the embedded store decides them.
type entry struct {
	*rule.Part
	plan  *algo.Plan
	sized algo.Plan // scratch
	// indebted is the part of a pool whose guarantee has admitted the request; nil of others.
	indebted *entry
}

// newEntries makes those of all limit sets, by rule.LimitSet.ID.
func newEntries(rules *rule.Set) [][]entry {
	all := make([][]entry, len(rules.LimitSets))
	for id, set := range rules.LimitSets {
		for n := range set.Parts {
			all[id] = append(all[id], newEntry(set, &set.Parts[n]))
		}
	}
	return all
}

func newEntry(set *rule.LimitSet, part *rule.Part) entry {
	e := entry{Part: part, plan: set.Plan}
	if len(part.Limits) == len(set.Limits) {
		return e
	}
	limits := make([]algo.Limit, len(part.Limits))
	pool := -1
	for n, i := range part.Limits {
		limits[n] = set.Limits[i].Limit
		if limits[n].Pool {
			pool = n
		}
		limits[n].Pool, limits[n].Guarantee = false, false // they are in entries of their own
	}
	e.plan = mustPlan(limits)
	if pool >= 0 {
		limits[pool].Indebted = true
		e.indebted = &entry{Part: part, plan: mustPlan(limits)}
	}
	return e
}

// mustPlan is the plan of limits that are of a plan already.
func mustPlan(limits []algo.Limit) *algo.Plan {
	plan, err := algo.NewPlan(limits)
	must.Hold(err == nil, "limits of a plan make a plan")
	return plan
}

// of is the part's plan at the sizes of a check, those of its limits in memory; without sizes as it is
// configured.
func (e *entry) of(sizes []algo.Size, memory *[]algo.Size) *algo.Plan {
	if len(e.Limits) < len(sizes) {
		*memory = (*memory)[:0]
		for _, i := range e.Limits {
			*memory = append(*memory, sizes[i])
		}
		sizes = *memory
	}
	return e.plan.At(&e.sized, sizes)
}

// borrower is the word of a guarantee, whose part is decided first, on a request.
type borrower struct {
	lends bool  // it has admitted the request, and was charged
	wait  int64 // until it would; algo.Never if it has, or does not apply
}

// take takes the guarantee's word. It rejects no request.
func (b *borrower) take(c *Check, limit int, r *algo.Ruling) {
	d := &c.Decisions[limit]
	b.lends = r.Allowed && c.Costs[limit] > 0
	if b.wait = d.RetryAfterMicros; b.wait == 0 {
		b.wait = algo.Never
	}
	r.Allowed = true
}

// resolve makes one decision of those of guarantee and pool.
func (b *borrower) resolve(c *Check) {
	guarantee, pool := c.Limits.Guarantee, c.Limits.Pool
	if guarantee < 0 {
		return
	}
	if d := &c.Decisions[pool]; !b.lends || !d.Allowed {
		c.Decisions[guarantee] = algo.Decision{RetryAfterMicros: b.wait}
		if b.lends { // the pool was asked as one that may be in debt
			d.Remaining = 0
		}
	}
	c.Limits.Plan.Resolve(c.Decisions)
}

// decide is the store's answer to a check, of each part of its identity: of the rule's own limits, and if
// these reject, of those that may pay for them. alone says that it is the only store, which obeys
// penalties. Without an answer ok is false, and the check stays undecided.
func (e *embedded) decide(c *Check, alone bool, now Time) (r algo.Ruling, ok bool) {
	own := c.Limits.Own
	for i := own; i < len(c.Decisions); i++ {
		c.Decisions[i] = algo.Decision{Allowed: true, Hidden: true}
	}
	r, ok = e.decideList(c, 0, own, alone, now)
	if ok && !r.Allowed && c.Limits.HasPer && c.Limits.Pays && slices.Max(c.Costs[own:]) > 0 {
		now.UnixMicros = r.AtMicros
		r, ok = e.decideList(c, own, len(c.Costs), alone, now)
		r.Over = r.Allowed
	}
	if !ok {
		c.Status = Undecided
	} else if r.EarnedMicros > 0 {
		e.record.Count(metric.PenaltyEarned, 1)
	}
	return r, ok
}

// decideList is its answer of the parts whose limits are from one on to another.
func (e *embedded) decideList(c *Check, from, to int, alone bool, now Time) (r algo.Ruling, ok bool) {
	r = algo.Ruling{Allowed: true}
	pair := &borrower{wait: algo.Never}
	for n := range c.Limits.Parts {
		if p := &c.Limits.Parts[n]; len(p.Limits) > 0 && (p.Limits[0] < from || p.Limits[0] >= to) {
			continue
		}
		said, applies, err := e.decidePart(c, n, pair, r.Allowed, alone, now)
		if err != nil {
			e.undoParts(c, from, n, r.Allowed, pair, now)
			return r, false
		}
		if !applies {
			continue
		}
		said.AtMicros = max(r.AtMicros, said.AtMicros)
		now.UnixMicros = said.AtMicros
		if !said.Allowed {
			e.undoParts(c, from, n, r.Allowed, pair, now)
		}
		said.Allowed = said.Allowed && r.Allowed
		r = said
	}
	pair.resolve(c)
	return r, true
}

// decidePart decides one part, and charges it if it may.
func (e *embedded) decidePart(
	c *Check, n int, pair *borrower, charge, alone bool, now Time,
) (r algo.Ruling, applies bool, err error) {
	p := &e.entries[c.Limits.ID][n]
	name, applies := c.Name(p.Part, &e.name)
	if !applies {
		return r, false, nil
	}
	if pair.lends && p.indebted != nil {
		p = p.indebted
	}
	costs, decisions := c.Costs, c.Decisions
	if len(p.Limits) < len(costs) {
		e.costs, e.decisions = e.costs[:0], e.decisions[:0]
		for _, i := range p.Limits {
			e.costs, e.decisions = append(e.costs, c.Costs[i]), append(e.decisions, c.Decisions[i])
		}
		costs, decisions = e.costs, e.decisions
	}
	plan := p.of(c.Sizes, &e.sizes)
	e.store.Occupying(e.occupied(c.Limits, name))
	if charge {
		r, err = e.store.Decide(plan, name, now.UnixMicros, costs, decisions, alone && !c.Limits.HasPer)
	} else {
		r, err = e.store.Peek(plan, name, now.UnixMicros, costs, decisions)
	}
	if len(p.Limits) < len(c.Costs) {
		for n, i := range p.Limits {
			c.Decisions[i] = decisions[n]
		}
	}
	if guarantee := c.Limits.Guarantee; guarantee >= 0 && p.Limits[0] == guarantee && err == nil {
		pair.take(c, guarantee, &r)
	}
	return r, true, err
}

// undoParts gives the first parts of a list back what was charged to them, as a later one rejects.
func (e *embedded) undoParts(c *Check, from, parts int, charged bool, pair *borrower, now Time) {
	for n := range parts {
		p := &c.Limits.Parts[n]
		if !charged || len(p.Limits) > 0 && p.Limits[0] < from {
			continue // of the other list, which was charged nothing
		}
		if guarantee := c.Limits.Guarantee; guarantee >= 0 && p.Limits[0] == guarantee && !pair.lends {
			continue
		}
		e.changePart(&c.Demand, n, now.UnixMicros, c.Costs, now)
		for _, i := range p.Limits {
			c.Decisions[i] = c.Decisions[i].Uncharged(c.Costs[i])
		}
	}
}

// change gives back so much of each limit that a demand has charged, or below 0 charges so much more.
func (e *embedded) change(d *rule.Demand, atMicros int64, back []int64, now Time) {
	for n := range d.Limits.Parts {
		e.changePart(d, n, atMicros, back, now)
	}
}

// changePart does so of the limits of one part.
func (e *embedded) changePart(d *rule.Demand, n int, atMicros int64, back []int64, now Time) {
	p := &e.entries[d.Limits.ID][n]
	name, applies := d.Name(p.Part, &e.name)
	if !applies {
		return
	}
	e.costs = e.costs[:0]
	for _, i := range p.Limits {
		e.costs = append(e.costs, back[i])
	}
	if slices.Max(e.costs) == 0 && slices.Min(e.costs) == 0 {
		return
	}
	e.store.Occupying(e.occupied(d.Limits, name))
	_ = e.store.RefundEach(p.of(d.Sizes, &e.sizes), name, atMicros, now.UnixMicros, e.costs)
}

// Who answers in Redis' place: what the worker remembers of overrides, then the embedded store.

// fallBack asks the embedded store about those checks that Redis has not decided, in mode local.
func (s *Stores) fallBack(q *Question, fails func(*Check) bool, now Time) {
	for i := range q.Checks {
		if c := &q.Checks[i]; fails(c) {
			s.askFallback(c, q, now)
		}
	}
}

// askFallback asks the embedded store in Redis' place, by what the worker remembers of overrides.
func (s *Stores) askFallback(c *Check, q *Question, now Time) {
	if r, ok := s.overrides.remembered(&c.Ask, now); ok {
		q.answer(c, FromFallback, &r, nil, 0)
		return
	}
	s.overrides.fit(q, c, now)                // Redis may have told more than the check knew
	q.sizes, c.Sizes = keep(q.sizes, c.Sizes) // what Redis was sent keeps its calendar windows
	s.calendars.fit(c.Limits, c.Sizes, now.UnixMicros)
	r, ok := s.embedded.decide(c, false, now)
	if ok {
		q.answer(c, FromFallback, &r, c.Decisions, 0)
		s.slots.occupy(&c.charged.receipt, now.SteadyMicros)
	}
}

// remembered is the ruling on a check's identity, if the worker remembers that it is free or
// blocked. It counts where Redis does not decide.
func (o *overrides) remembered(a *Ask, now Time) (r algo.Ruling, ok bool) {
	if !a.Rule.Terms.Overrides {
		return r, false
	}
	k := o.lasting(a, now.SteadyMicros)
	if k == nil {
		return r, false
	}
	r.AtMicros, r.LeftMicros = now.UnixMicros, k.untilMicros-now.SteadyMicros
	if k.untilMicros == math.MaxInt64 {
		r.LeftMicros = algo.Never
	}
	switch override.Parse(text.View(k.value)).Kind {
	case override.Free:
		r.By, r.Allowed = algo.ByFree, true
	case override.Block:
		r.By = algo.ByBlock
	default:
		return r, false
	}
	return r, true
}

// plans makes the plans of limits whose sizes came with a request. By rule.LimitSet.ID.
type plans []algo.Plan

// of is the plan of limits with these sizes; with none as it is configured. It is good until
// the next call about the same limits.
func (p plans) of(limits *rule.LimitSet, sizes []algo.Size) *algo.Plan {
	return limits.Plan.At(&p[limits.ID], sizes)
}

// sameSize reports whether a limit has the same size, whenever its windows begin.
func sameSize(a, b algo.Size) bool { return a.Units == b.Units && a.Burst == b.Burst }
