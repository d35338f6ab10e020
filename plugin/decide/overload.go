package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/lru"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// The requests of a crowd that Redis does not decide in time. The failure mode must not let a
// client past its own limit because the client has sent more at once than Redis can be asked
// about. So while there is a crowd, the worker notes Redis' last decision about each identity,
// whether the deny cache is on or not, and how many units that leaves. Of the requests that had
// arrived by then, the failure mode gets those that fit into these units. The worker rejects
// the others, though time may have brought some units back meanwhile.
//
// The worker does not note a shadow rule's decisions. A rejection here counts towards no
// penalty, because Redis might have admitted the request.

// Bound: identities whose last decision is noted while there is a crowd. Beyond it, the one noted
// longest ago is left to the failure mode. Protects memory.
const maxBurstIdentities = 4096

// burst holds what Redis says while there is a crowd.
type burst struct {
	on     bool
	number uint32                            // counts the crowds
	said   *lru.Table[rule.LimitSetID, said] // nil before the first of them; by rule.LimitSet.ID
	seed   uint64

	name   []byte       // scratch, of a part
	limits []algo.Limit // scratch, as a check has them
}

// said is Redis' last decision about an identity.
type said struct {
	by        algo.By // who decided, and for how long it lasts if that is a block
	left      int64
	decisions []algo.Decision // of the limits; unused under a block
	costs     []int64         // that they were made for
	sizes     []algo.Size     // that came with the request, before an operator's factor
	lent      []int64         // units of the requests that the failure mode let go, in this crowd
	used      []int64         // units that are in use, whatever the size and class that asks
	number    uint32          // of the crowd

	atMicros, storeMicros int64 // when it came, on the worker's steady clock and on Redis'
}

// hear notes what Redis says of a check's identity, of each part of it. If again, the check's units are
// lent already, or are given back.
func (b *burst) hear(c *Check, r *redis.Reply, again bool, nowMicros int64) {
	if !c.Rule.Enforced {
		return
	}
	if b.said == nil {
		b.said = lru.New[rule.LimitSetID, said](maxBurstIdentities, b.seed)
	}
	for n := range c.Limits.Parts {
		name, applies := c.Name(&c.Limits.Parts[n], &b.name)
		if !applies {
			continue
		}
		e, fresh := b.said.Put(c.Limits.ID, name)
		if fresh || e.number != b.number {
			e.number, e.lent, e.used, e.decisions = b.number, e.lent[:0], e.used[:0], e.decisions[:0]
		}
		e.atMicros, e.storeMicros = nowMicros, r.AtMicros
		e.by, e.left = blockOf(&r.Ruling)
		e.costs, e.sizes = append(e.costs[:0], c.Costs...), append(e.sizes[:0], c.own...)
		known := len(e.decisions)
		e.decisions = slices.Grow(e.decisions, len(r.Decisions))[:len(r.Decisions)]
		for i := range r.Decisions {
			d := &e.decisions[i]
			switch {
			case r.By != algo.ByLimits || !r.Decisions[i].Hidden || i < c.Limits.Own:
				*d = r.Decisions[i]
			case i >= known: // Redis left it out, because the rule's own limits admitted the request
				*d = algo.Decision{Allowed: true, Remaining: c.Room(i)}
			}
			if i == len(e.lent) {
				e.lent, e.used = append(e.lent, 0), append(e.used, 0)
			}
			if r.By != algo.ByLimits {
				continue
			}
			switch used := c.Room(i) - d.Remaining; {
			case c.Limits.Limits[i].Pool: // it may be in debt
				l := c.Limit(i)
				e.used[i] = max(used, l.UnitsRestoredIn(d.ResetAfterMicros-1))
			case d.Remaining > 0:
				e.used[i] = used
			default: // so much at least: another size or class may have seen more
				e.used[i] = max(used, e.used[i])
			}
			if again && r.Allowed && (!c.Limits.Pays || r.Over == (i >= c.Limits.Own)) {
				d.Remaining += c.Costs[i]
				e.used[i] -= c.Costs[i]
			}
		}
	}
}

// How the worker decides requests that timed out in a crowd, from Redis' last decision about the same
// identity.

// heard is what Redis has said of a part of an identity, for a check that asks about it.
type heard struct {
	*said
	check  *Check
	limits []algo.Limit // of the part, at the check's sizes and class
}

// about returns Redis' last decision about a part of an undecided check's identity. ok is false if there is
// none since the request came.
func (b *burst) about(q *Question, c *Check, part *rule.Part) (h heard, ok bool) {
	name, applies := c.Name(part, &b.name)
	if !applies || b.said == nil {
		return h, false
	}
	e := b.said.Get(c.Limits.ID, name)
	if e == nil || e.atMicros < q.arrivedMicros {
		return h, false
	}
	if e.by != algo.ByLimits {
		return heard{said: e, check: c}, true
	}
	if len(e.decisions) != len(c.Decisions) || len(e.sizes) != len(c.own) {
		return h, false
	}
	b.limits = slices.Grow(b.limits[:0], len(c.Decisions))[:len(c.Decisions)]
	for _, i := range part.Limits {
		b.limits[i] = c.Limits.Limits[i].Limit
		if c.Sizes != nil {
			b.limits[i].Resize(c.Sizes[i])
		}
	}
	return heard{e, c, b.limits}, true
}

// rejects reports whether an undecided check asks for more than Redis has left. It fills in the decisions
// of the limits that it knows.
func (b *burst) rejects(q *Question, c *Check, now Time) (r algo.Ruling, rejects bool) {
	if !c.Rule.Enforced {
		return r, false
	}
	for i := range c.Decisions {
		c.Decisions[i] = algo.Decision{Allowed: true, Hidden: true}
	}
	var lends bool // a pool rejects no request that the guarantee has room for
	for i := range c.Limits.Parts {
		part := &c.Limits.Parts[i]
		h, ok := b.about(q, c, part)
		if !ok {
			continue
		}
		age := now.SteadyMicros - h.atMicros
		r.AtMicros = h.storeMicros + age
		if h.by != algo.ByLimits {
			left := h.left
			if left != algo.Never {
				left = max(0, left-age)
			}
			if !h.by.Blocks() || left == 0 {
				continue
			}
			r.By, r.LeftMicros = h.by, left
			return r, true
		}
		for _, limit := range part.Limits {
			d, hidden := h.decide(limit, age), h.decisions[limit].Hidden
			switch {
			case limit == c.Limits.Guarantee: // the pool's decision is shown
				lends = d.Allowed && !hidden && c.Costs[limit] > 0
				continue
			case limit == c.Limits.Pool: // hidden where the guarantee has admitted, and known all the same
				debt := 2*h.limits[limit].Capacity() - h.used[limit] - h.lent[limit]
				rejects = rejects || !d.Allowed && !(lends && c.Costs[limit] <= debt)
			case hidden:
				continue
			default:
				rejects = rejects || !d.Allowed
			}
			c.Decisions[limit] = d
		}
	}
	if own := c.Limits.Own; rejects && c.Limits.Pays {
		pays := slices.Max(c.Costs[own:]) > 0 && b.fitsList(q, c, own, len(c.Costs))
		rejects = !pays && !b.fitsList(q, c, 0, own)
	}
	return r, rejects
}

// lend notes that the failure mode lets a check's request go.
func (b *burst) lend(q *Question, c *Check) {
	from, to := 0, c.Limits.Own
	if to < len(c.Costs) && !b.fitsList(q, c, 0, to) {
		from, to = to, len(c.Costs)
	}
	for i := range c.Limits.Parts {
		part := &c.Limits.Parts[i]
		h, ok := b.about(q, c, part)
		if !ok || h.by != algo.ByLimits {
			continue
		}
		c.lent = true
		for _, limit := range part.Limits {
			if from <= limit && limit < to {
				h.lent[limit] += c.Costs[limit]
			}
		}
	}
}

// fitsList reports whether a check fits into all that is known of the limits from one on to another.
func (b *burst) fitsList(q *Question, c *Check, from, to int) bool {
	for i := range c.Limits.Parts {
		part := &c.Limits.Parts[i]
		h, ok := b.about(q, c, part)
		if !ok || h.by != algo.ByLimits {
			continue
		}
		for _, limit := range part.Limits {
			if from <= limit && limit < to && !h.fits(limit) {
				return false
			}
		}
	}
	return true
}

// fits reports whether the check's cost of a limit does not exceed the units that are left.
func (h *heard) fits(i int) bool {
	cost := h.check.Costs[i]
	return cost == 0 || cost <= h.remaining(i)-h.lent[i]
}

// remaining is how much Redis has left of a limit of the check's size and class, at most.
func (h *heard) remaining(i int) int64 {
	if h.isOf(i) {
		return h.decisions[i].Remaining
	}
	return h.limits[i].Room() - h.used[i]
}

// isOf reports whether the decision was about a limit of the check's size and class.
func (h *heard) isOf(i int) bool {
	if h.check.own == nil {
		return true
	}
	was, is := &h.sizes[i], &h.check.own[i]
	return was.Units == is.Units && was.Burst == is.Burst && was.Ceiling == is.Ceiling
}

// decide is a limit's decision about the check, from Redis' last one. Its wait is never too short: if it
// does not follow from Redis' decision, it lasts until all units are back.
func (h *heard) decide(i int, age int64) algo.Decision {
	d, l, isOf := h.decisions[i], &h.limits[i], h.isOf(i)
	if !isOf && l.Algorithm.HasBurst() { // it drains at another rate
		d.ResetAfterMicros = l.RestoreMicros()
	}
	rejected, wait, known := !d.Allowed, int64(0), false
	d.Allowed, d.Hidden = h.fits(i), false
	d.Remaining = max(0, h.remaining(i)-h.lent[i])
	if !d.Allowed {
		// A pool tells the wait of a guarantee that is shorter, and whose that was is not known.
		if rejected && h.lent[i] == 0 && isOf && !h.check.Limits.Limits[i].Pool {
			wait, known = l.RetryAfterFor(h.check.Costs[i], h.costs[i], d.RetryAfterMicros)
		}
		switch {
		case known:
		case h.check.Costs[i] > l.Room():
			wait = algo.Never
		default:
			wait = d.ResetAfterMicros
		}
		if wait != algo.Never {
			wait = max(1, wait-age)
		}
	}
	d.RetryAfterMicros, d.ResetAfterMicros = wait, max(0, d.ResetAfterMicros-age)
	return d
}
