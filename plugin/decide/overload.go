package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/deny"
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
	name   []byte // scratch, of a part
}

// said is Redis' last decision about an identity.
type said struct {
	block     deny.Block
	decisions []algo.Decision // of the limits; unused under a block
	costs     []int64         // that they were made for
	sizes     []algo.Size     // that came with the request, before an operator's factor
	lent      []int64         // units of the requests that the failure mode let go, in this crowd
	used      []int64         // units that are in use, whatever the size and class that asks
	number    uint32          // of the crowd

	atMicros, storeMicros int64 // when it came, on the worker's steady clock and on Redis'
}

func (b *burst) begin() {
	b.on = true
	b.number++
}

// hear notes what Redis says of a check's identity. If again, the check's units are lent
// already, or are given back.
func (b *burst) hear(c *Check, r *redis.Reply, again bool, nowMicros int64) {
	if !c.Rule.Enforced {
		return
	}
	for i := range c.Limits.Parts {
		if name, applies := c.Name(&c.Limits.Parts[i], &b.name); applies {
			b.hearPart(c, name, r, again, nowMicros)
		}
	}
}

// hearPart notes it of a part of the identity.
func (b *burst) hearPart(c *Check, part []byte, r *redis.Reply, again bool, nowMicros int64) {
	if b.said == nil {
		b.said = lru.New[rule.LimitSetID, said](maxBurstIdentities, b.seed)
	}
	e, fresh := b.said.Put(c.Limits.ID, part)
	if fresh || e.number != b.number {
		e.number, e.lent, e.used, e.decisions = b.number, e.lent[:0], e.used[:0], e.decisions[:0]
	}
	e.atMicros, e.storeMicros = nowMicros, r.AtMicros
	e.block = deny.Block{By: r.By, LeftMicros: r.LeftMicros}
	if r.EarnedMicros > 0 {
		e.block = deny.Block{By: algo.ByPenalty, LeftMicros: r.EarnedMicros}
	}
	e.hearDecisions(c, r)
	e.costs, e.sizes = append(e.costs[:0], c.Costs...), append(e.sizes[:0], c.own...)
	for i := range e.decisions {
		if i == len(e.lent) {
			e.lent, e.used = append(e.lent, 0), append(e.used, 0)
		}
		if r.By != algo.ByLimits {
			continue
		}
		l, d := c.Limit(i), &e.decisions[i]
		switch used := l.Room() - d.Remaining; {
		case l.Pool: // it may be in debt
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

// hearDecisions takes the decisions of a reply. Limits that Redis left out, because the rule's own limits
// admitted the request, keep their last decisions.
func (e *said) hearDecisions(c *Check, r *redis.Reply) {
	for i := range r.Decisions {
		d := r.Decisions[i]
		if r.By == algo.ByLimits && d.Hidden && i >= c.Limits.Own {
			if i < len(e.decisions) {
				continue
			}
			l := c.Limit(i)
			d = algo.Decision{Allowed: true, Remaining: l.Room()}
		}
		if i < len(e.decisions) {
			e.decisions[i] = d
		} else {
			e.decisions = append(e.decisions, d)
		}
	}
	e.decisions = e.decisions[:len(r.Decisions)]
}

// lend notes that the failure mode lets a check's request go.
func (b *burst) lend(q *Question, c *Check) {
	from, to := 0, len(c.Costs)
	if c.Limits.Pays {
		if to = c.Limits.Own; !b.fitsList(q, c, 0, to) {
			from, to = to, len(c.Costs)
		}
	}
	for i := range c.Limits.Parts {
		part := &c.Limits.Parts[i]
		e := b.about(q, c, part)
		if e == nil || e.block.By != algo.ByLimits {
			continue
		}
		c.lent = true
		for _, limit := range part.Limits {
			if from <= limit && limit < to {
				e.lent[limit] += c.Costs[limit]
			}
		}
	}
}

// fitsList reports whether a check fits into all that is known of the limits from one on to another.
func (b *burst) fitsList(q *Question, c *Check, from, to int) bool {
	for i := range c.Limits.Parts {
		part := &c.Limits.Parts[i]
		e := b.about(q, c, part)
		if e == nil || e.block.By != algo.ByLimits {
			continue
		}
		for _, limit := range part.Limits {
			if l := e.limit(limit, c); from <= limit && limit < to && !e.fits(limit, c, &l) {
				return false
			}
		}
	}
	return true
}

// How the worker decides requests that timed out in a crowd, from Redis' last decision about the same
// identity.

// endOverdue decides the undecided checks of a request where Redis' decisions about others of the crowd
// suffice.
//
//go:noinline
func (s *Stores) endOverdue(q *Question, now Time) {
	rejected := false
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Status != Undecided || !c.Rule.Enforced {
			continue
		}
		if r, rejects := s.burst.rejects(q, c, now); rejects {
			s.answer(q, c, FromBurst, &r, c.Decisions, 0, now)
			rejected = rejected || !c.isOver()
		}
	}
	if rejected {
		return
	}
	if q.overdue {
		s.remote.conn.Overloaded(now.SteadyMicros)
	}
	if q.state == Gone {
		return
	}
	for i := range q.Checks {
		if c := &q.Checks[i]; c.Status == Undecided && c.Rule.Enforced && c.Rule.Failure != config.FailDeny {
			s.burst.lend(q, c)
		}
	}
}

// rejects reports whether an undecided check asks for more than Redis has left. It fills in the decisions
// of the limits that it knows.
func (b *burst) rejects(q *Question, c *Check, now Time) (r algo.Ruling, rejects bool) {
	for i := range c.Decisions {
		c.Decisions[i] = algo.Decision{Allowed: true, Hidden: true}
	}
	var lends bool // a pool rejects no request that the guarantee has room for
	for i := range c.Limits.Parts {
		part := &c.Limits.Parts[i]
		e := b.about(q, c, part)
		if e == nil {
			continue
		}
		age := now.SteadyMicros - e.atMicros
		r.AtMicros = e.storeMicros + age
		if e.block.By != algo.ByLimits {
			if !e.blocks(now) {
				continue
			}
			r.By, r.LeftMicros = e.block.By, e.left(now)
			return r, true
		}
		for _, limit := range part.Limits {
			l, hidden := e.limit(limit, c), e.decisions[limit].Hidden
			d := e.decide(limit, c, &l, age)
			switch {
			case limit == c.Limits.Guarantee: // the pool's decision is shown
				lends = d.Allowed && !hidden && c.Costs[limit] > 0
				continue
			case limit == c.Limits.Pool: // hidden where the guarantee has admitted, and known all the same
				rejects = rejects || !d.Allowed && !(lends && e.fitsDebt(limit, c, &l))
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

// about returns Redis' last decision about a part of an undecided check's identity: nil if there is
// none since the request came.
func (b *burst) about(q *Question, c *Check, part *rule.Part) *said {
	name, applies := c.Name(part, &b.name)
	if !applies || b.said == nil {
		return nil
	}
	e := b.said.Get(c.Limits.ID, name)
	if e == nil || e.atMicros < q.arrivedMicros {
		return nil
	}
	if e.block.By == algo.ByLimits && (len(e.decisions) != len(c.Decisions) || len(e.sizes) != len(c.own)) {
		return nil
	}
	return e
}

// left is how long the block still lasts; 0 without one.
func (e *said) left(now Time) int64 {
	if !e.block.By.Blocks() || e.block.LeftMicros == algo.Never {
		return e.block.LeftMicros
	}
	return max(0, e.block.LeftMicros-(now.SteadyMicros-e.atMicros))
}

// limit is a limit of a check's size and class.
func (*said) limit(i int, c *Check) algo.Limit { return c.Limit(i) }

// fits reports whether a check's cost of a limit does not exceed the units that are left.
func (e *said) fits(i int, c *Check, l *algo.Limit) bool {
	cost := c.Costs[i]
	return cost == 0 || cost <= e.remaining(i, c, l)-e.lent[i]
}

// fitsDebt reports whether the cost of a request within its guarantee fits into the pool's debt.
func (e *said) fitsDebt(pool int, c *Check, l *algo.Limit) bool {
	return c.Costs[pool] <= 2*l.Capacity()-e.used[pool]-e.lent[pool]
}

// remaining is how much Redis has left of a limit of a check's size and class, at most.
func (e *said) remaining(i int, c *Check, l *algo.Limit) int64 {
	if e.isOf(i, c) {
		return e.decisions[i].Remaining
	}
	return l.Room() - e.used[i]
}

// isOf reports whether the decision was about a limit of a check's size and class.
func (e *said) isOf(i int, c *Check) bool {
	return c.own == nil ||
		e.sizes[i].Units == c.own[i].Units && e.sizes[i].Burst == c.own[i].Burst && e.sizes[i].Ceiling == c.own[i].Ceiling
}

// blocks reports whether the identity is under a block that still lasts.
func (e *said) blocks(now Time) bool { return e.block.By.Blocks() && e.left(now) != 0 }

// What is said to a request that exceeds what Redis had left, by its last decision.

// decide is a limit's decision about a check. Its wait is never too short: if it does not follow
// from Redis' decision, it lasts until all units are back.
func (e *said) decide(i int, c *Check, l *algo.Limit, age int64) algo.Decision {
	d := e.decisions[i]
	if !e.isOf(i, c) && l.Algorithm.HasBurst() { // it drains at another rate
		d.ResetAfterMicros = l.RestoreMicros()
	}
	rejected := !d.Allowed
	d.Allowed, d.Hidden = e.fits(i, c, l), false
	d.Remaining = max(0, e.remaining(i, c, l)-e.lent[i])
	if d.Allowed {
		d.RetryAfterMicros = 0
	} else {
		d.RetryAfterMicros = e.wait(i, c, l, &d, rejected)
		if d.RetryAfterMicros != algo.Never {
			d.RetryAfterMicros = max(1, d.RetryAfterMicros-age)
		}
	}
	d.ResetAfterMicros = max(0, d.ResetAfterMicros-age)
	return d
}

// wait is the check's wait as of Redis' last decision.
func (e *said) wait(i int, c *Check, l *algo.Limit, d *algo.Decision, rejected bool) int64 {
	if rejected && e.lent[i] == 0 && e.isOf(i, c) {
		if micros, known := l.RetryAfterFor(c.Costs[i], e.costs[i], d.RetryAfterMicros); known {
			return micros
		}
	}
	if c.Costs[i] > l.Room() {
		return algo.Never
	}
	return d.ResetAfterMicros
}
