package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/local"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/must"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/slots"
)

// embedded is the layer of the embedded store: where no Redis is configured it answers all
// checks, else those that Redis failed in mode local. It may be contended. What it was to be
// given back is charged then until it expires, and of slots it hears with the next call.
type embedded struct {
	store   *local.Store
	record  Recorder
	book    *slots.Book // knows the slots that the worker occupies in it
	entries [][]entry   // by rule.LimitSet.ID, parallel to its Parts

	// Scratch, of a part.
	name      []byte
	sizes     []algo.Size
	costs     []int64
	decisions []algo.Decision
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

// newEntries makes the entries of all limit sets, by rule.LimitSet.ID.
func newEntries(rules *rule.Set) [][]entry {
	all := make([][]entry, len(rules.LimitSets))
	for id, set := range rules.LimitSets {
		for n := range set.Parts {
			part := &set.Parts[n]
			e := entry{Part: part, plan: set.Plan}
			if len(part.Limits) < len(set.Limits) {
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
			}
			all[id] = append(all[id], e)
		}
	}
	return all
}

// mustPlan is the plan of limits that are of a plan already.
func mustPlan(limits []algo.Limit) *algo.Plan {
	plan, err := algo.NewPlan(limits)
	must.Hold(err == nil, "limits of a plan make a plan")
	return plan
}

// of returns the part's plan at a check's sizes, of which it keeps the part's own in memory; without sizes it is
// the plan as configured.
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

// part is the plan of one part of a demand, and the part's name. It tells the store how many slots the
// worker has of the part. applies is false if the part does not apply.
func (e *embedded) part(p *entry, d *rule.Demand) (plan *algo.Plan, name []byte, applies bool) {
	plan = p.of(d.Sizes, &e.sizes)
	if name, applies = d.Name(p.Part, &e.name); !applies {
		return plan, nil, false
	}
	held := int64(0)
	if d.Limits.HasSlots {
		held = e.book.Held(d.Limits.ID, name, true)
	}
	e.store.Occupying(held)
	return plan, name, true
}

// decide is the store's answer to a check, of each part of its identity: of the rule's own limits, and if
// these reject, of those that may pay for them. alone says that it is the only store, which obeys
// penalties. Without an answer ok is false, and the check stays undecided.
func (e *embedded) decide(c *Check, alone bool, now Time) (r algo.Ruling, ok bool) {
	from, to := 0, c.Limits.Own
	for i := to; i < len(c.Decisions); i++ {
		c.Decisions[i] = algo.Decision{Allowed: true, Hidden: true}
	}
	for {
		if r, ok = e.decideList(c, from, to, alone, now); !ok {
			c.Status = Undecided
			return r, false
		}
		if r.Allowed || to == len(c.Costs) || !c.Limits.HasPer || slices.Max(c.Costs[to:]) == 0 {
			break
		}
		from, to, now.UnixMicros = to, len(c.Costs), r.AtMicros
	}
	r.Over = r.Over || r.Allowed && from > 0
	if r.EarnedMicros > 0 {
		e.record.Count(metric.PenaltyEarned, 1)
	}
	return r, true
}

// decideList is its answer of the parts whose limits are from one on to another. One part after the other is
// charged; when one rejects, the rest is only looked at, and what was charged is given back.
func (e *embedded) decideList(c *Check, from, to int, alone bool, now Time) (r algo.Ruling, ok bool) {
	var err error
	r.Allowed = true
	guarantee, lends, wait := c.Limits.Guarantee, false, int64(algo.Never)
	charged, chargedMicros := 0, now.UnixMicros // how many parts, the first ones, and when
	debt := false                               // looks at what the pool that has rejected may owe
	for n := 0; n < len(c.Limits.Parts); n++ {
		p := &e.entries[c.Limits.ID][n]
		if (lends || debt) && p.indebted != nil {
			p = p.indebted
		}
		if len(p.Limits) > 0 && (p.Limits[0] < from || p.Limits[0] >= to) {
			continue
		}
		plan, name, applies := e.part(p, &c.Demand)
		if !applies {
			continue
		}
		costs, decisions := c.Costs, c.Decisions
		if len(p.Limits) < len(costs) {
			e.costs, e.decisions = e.costs[:0], e.decisions[:0]
			for _, i := range p.Limits {
				e.costs, e.decisions = append(e.costs, c.Costs[i]), append(e.decisions, c.Decisions[i])
			}
			costs, decisions = e.costs, e.decisions
		}
		how := local.Charge
		switch {
		case !r.Allowed:
			how = local.Look
		case alone && !c.Limits.HasPer:
			how = local.Obey
		}
		var said algo.Ruling
		if said, err = e.store.Decide(plan, name, now.UnixMicros, costs, decisions, how); err != nil {
			break
		}
		if debt { // when the guarantee has room again, there may be none for what it admits
			wait, debt = algo.LongerWait(wait, decisions[slices.Index(p.Limits, c.Limits.Pool)].RetryAfterMicros), false
			continue
		}
		for n, i := range p.Limits {
			c.Decisions[i] = decisions[n]
		}
		if guarantee >= 0 && p.Limits[0] == guarantee { // it rejects no request, which may borrow
			lends = said.Allowed && c.Costs[guarantee] > 0
			if wait = c.Decisions[guarantee].RetryAfterMicros; wait == 0 {
				wait = algo.Never
			}
			said.Allowed = true
		}
		said.AtMicros, said.Allowed = max(r.AtMicros, said.AtMicros), said.Allowed && r.Allowed
		r, now.UnixMicros = said, said.AtMicros
		if r.Allowed {
			charged, chargedMicros = n+1, said.AtMicros
		} else if debt = p.indebted != nil && wait != algo.Never; debt {
			n--
		}
	}
	if r.Allowed && err == nil {
		charged = 0 // and stays
	}
	for n := range charged {
		p := &c.Limits.Parts[n]
		if len(p.Limits) == 0 || p.Limits[0] < from || p.Limits[0] == guarantee && !lends {
			continue // it was charged nothing
		}
		e.changePart(&c.Demand, n, chargedMicros, c.Costs, now)
		for _, i := range p.Limits {
			c.Decisions[i] = c.Decisions[i].Uncharged(c.Costs[i])
		}
	}
	if pool := c.Limits.Pool; guarantee >= 0 {
		if d := &c.Decisions[pool]; !lends || !d.Allowed {
			c.Decisions[guarantee] = algo.Decision{RetryAfterMicros: wait}
			if lends { // the pool was asked as one that may be in debt
				d.Remaining = 0
			}
		}
		c.Limits.Plan.Resolve(c.Decisions)
	}
	return r, err == nil
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
	e.costs = e.costs[:0]
	for _, i := range p.Limits {
		e.costs = append(e.costs, back[i])
	}
	plan, name, applies := e.part(p, d)
	if !applies || slices.Max(e.costs) == 0 && slices.Min(e.costs) == 0 {
		return
	}
	_ = e.store.RefundEach(plan, name, atMicros, now.UnixMicros, e.costs)
}

// occupy tells the store how many slots of a part of an identity the worker occupies. sizes are the
// limits' configured sizes.
func (e *embedded) occupy(limits *rule.LimitSet, part []byte, sizes []algo.Size, slots int64, now Time) {
	plan, entries := limits.Plan, e.entries[limits.ID]
	_, id := rule.CutPart(part)
	for n := range entries {
		perID := limits.Limits[entries[n].Limits[0]].PerID
		if len(id) == 0 && perID == "" || perID != "" && len(id) > len(perID) && string(id[:len(perID)]) == perID {
			plan = entries[n].of(sizes, &e.sizes)
			break
		}
	}
	_ = e.store.Occupy(plan, part, now.UnixMicros, slots)
}
