package decide

import (
	"github.com/sluiceproxy/sluice/algo"
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

// maxBurstIdentities bounds of how many identities it is noted.
//
// Bound: identities whose last decision is noted while there is a crowd. Beyond it, the one noted
// longest ago is left to the failure mode. Protects memory.
const maxBurstIdentities = 4096

// burst holds what Redis says while there is a crowd.
type burst struct {
	on     bool
	number uint32                            // counts the crowds
	said   *lru.Table[rule.LimitSetID, said] // nil before the first one; by rule.LimitSet.ID
	seed   uint64
	parts  scratch // see parts.go
}

// said is Redis' last decision about an identity.
type said struct {
	block     deny.Block
	decisions []algo.Decision // of the limits; unused under a block
	costs     []int64         // that they were made for
	sizes     []algo.Size     // that came with the request, before an operator's factor
	lent      []int64         // units of the requests that the failure mode let go, in this crowd
	number    uint32          // of the crowd

	atMicros, storeMicros int64 // when it came, on the worker's steady clock and on Redis'
}

func (b *burst) begin() {
	if b.said == nil {
		b.said = lru.New[rule.LimitSetID, said](maxBurstIdentities, b.seed)
	}
	b.on = true
	b.number++
}

// hear notes what Redis says of a check's identity. If again, the check's units are lent
// already, or are given back.
func (b *burst) hear(c *Check, r *redis.Reply, again bool, nowMicros int64) {
	if !c.Enforced() {
		return
	}
	if c.Values == nil {
		b.hearPart(c, c.Tag, r, again, nowMicros)
		return
	}
	for _, part := range c.Limits.Parts {
		if name, applies := b.parts.name(&c.Ask, part); applies {
			b.hearPart(c, name, r, again, nowMicros)
		}
	}
}

// hearPart notes it of a part of the identity.
func (b *burst) hearPart(c *Check, part []byte, r *redis.Reply, again bool, nowMicros int64) {
	e, fresh := b.said.Put(c.Limits.ID, part)
	if fresh || e.number != b.number {
		e.number, e.lent = b.number, e.lent[:0]
	}
	e.atMicros, e.storeMicros = nowMicros, r.AtMicros
	e.block = deny.Block{By: r.By, LeftMicros: r.LeftMicros}
	if r.EarnedMicros > 0 {
		e.block = deny.Block{By: algo.ByPenalty, LeftMicros: r.EarnedMicros}
	}
	e.decisions = append(e.decisions[:0], r.Decisions...)
	e.costs, e.sizes = append(e.costs[:0], c.Costs...), append(e.sizes[:0], c.own...)
	for i := range e.decisions {
		if i == len(e.lent) {
			e.lent = append(e.lent, 0)
		}
		if again && r.Allowed {
			e.decisions[i].Remaining += c.Costs[i]
		}
	}
}

// endOverdue decides what it can of a request of which Redis leaves some check undecided.
//
//go:noinline
func (s *Stores) endOverdue(q *Question, now Time) {
	rejected := false
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Values != nil {
			rejected = s.burst.rejectParts(q, c, now) || rejected
			continue
		}
		if e := s.burst.about(q, c); e != nil && e.exceeded(c, now) {
			e.reject(c, now)
			rejected = rejected || !c.isOver()
		}
	}
	if rejected {
		return
	}
	if q.overdue {
		s.remote.conn.Overloaded(now.SteadyMicros)
	}
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Values != nil {
			s.burst.lendParts(q, c)
			continue
		}
		if e := s.burst.about(q, c); e != nil && q.state != Gone && !failsDenying(c) {
			e.lend(c)
		}
	}
}

// about returns Redis' last decision about an undecided check's identity: nil if there is none
// since the request came, or if it was about limits of another size.
func (b *burst) about(q *Question, c *Check) *said {
	return b.aboutPart(q, c, c.Tag)
}

// aboutPart is about a part of the identity.
func (b *burst) aboutPart(q *Question, c *Check, part []byte) *said {
	if b.said == nil || !enforcedUndecided(c) {
		return nil
	}
	e := b.said.Get(c.Limits.ID, part)
	if e == nil || e.atMicros < q.arrivedMicros {
		return nil
	}
	if e.block.By == algo.ByLimits && (len(e.decisions) != len(c.Decisions) || !sameSizes(e.sizes, c.own)) {
		return nil
	}
	return e
}

// sameSizes reports whether limits have the same size, whenever their windows begin.
func sameSizes(a, b []algo.Size) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Units != b[i].Units || a[i].Burst != b[i].Burst {
			return false
		}
	}
	return true
}

// left is how long the block still lasts; 0 without one.
func (e *said) left(now Time) int64 {
	if !e.block.By.Blocks() || e.block.LeftMicros == algo.Never {
		return e.block.LeftMicros
	}
	return max(0, e.block.LeftMicros-(now.SteadyMicros-e.atMicros))
}

// fits reports whether a check's cost of a limit does not exceed the units that are left.
func (e *said) fits(i int, c *Check) bool {
	cost := c.Costs[i]
	return cost == 0 || cost <= e.remaining(i, c)-e.lent[i]
}

// remaining is how much Redis has left of a limit for the class of a check, at most: a lower class
// has so much less than a higher one.
func (e *said) remaining(i int, c *Check) int64 {
	left := e.decisions[i].Remaining
	if c.own == nil || e.sizes[i].Ceiling == c.own[i].Ceiling {
		return left
	}
	then, now := c.Limit(i), c.Limit(i)
	then.Ceiling = e.sizes[i].Ceiling
	return left - (then.Room() - now.Room())
}

// exceeded reports whether a check asks for more than is left.
func (e *said) exceeded(c *Check, now Time) bool {
	if e.block.By != algo.ByLimits {
		return e.block.By.Blocks() && e.left(now) != 0
	}
	for i := range c.Costs {
		if !e.fits(i, c) {
			return true
		}
	}
	return false
}

// lend notes that the failure mode lets a check's request go.
func (e *said) lend(c *Check) {
	if e.block.By != algo.ByLimits {
		return
	}
	c.lent = true
	for i, cost := range c.Costs {
		e.lent[i] += cost
	}
}

// reject answers a check that exceeds the units that are left.
func (e *said) reject(c *Check, now Time) {
	age := now.SteadyMicros - e.atMicros
	ruling := algo.Ruling{AtMicros: e.storeMicros + age, By: e.block.By, LeftMicros: e.left(now)}
	if !ruling.By.Blocks() {
		for i := range c.Decisions {
			c.Decisions[i] = e.decide(i, c, age)
		}
	}
	c.ruled(FromBurst, &ruling, c.Decisions, 0)
}

// decide is a limit's decision about a check. Its wait is never too short: if it does not follow
// from Redis' decision, it lasts until all units are back.
func (e *said) decide(i int, c *Check, age int64) algo.Decision {
	d := e.decisions[i]
	rejected := !d.Allowed
	d.Allowed = e.fits(i, c)
	d.Remaining = max(0, e.remaining(i, c)-e.lent[i])
	if d.Allowed {
		d.RetryAfterMicros = 0
	} else {
		d.RetryAfterMicros = e.wait(i, c, rejected)
		if d.RetryAfterMicros != algo.Never {
			d.RetryAfterMicros = max(1, d.RetryAfterMicros-age)
		}
	}
	d.ResetAfterMicros = max(0, d.ResetAfterMicros-age)
	return d
}

// wait is that of a check when Redis had its say.
func (e *said) wait(i int, c *Check, rejected bool) int64 {
	l, d := c.Limit(i), &e.decisions[i]
	if rejected && e.lent[i] == 0 && e.remaining(i, c) == d.Remaining {
		if micros, known := l.RetryAfterFor(c.Costs[i], e.costs[i], d.RetryAfterMicros); known {
			return micros
		}
	}
	if c.Costs[i] > l.Room() {
		return algo.Never
	}
	return d.ResetAfterMicros
}
