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

// Bound: identities whose last decision is noted while there is a crowd. Beyond it, the one noted
// longest ago is left to the failure mode. Protects memory.
const maxBurstIdentities = 4096

// burst holds what Redis says while there is a crowd.
type burst struct {
	on     bool
	number uint32                            // counts the crowds
	said   *lru.Table[rule.LimitSetID, said] // nil before the first of them; by rule.LimitSet.ID
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
	if !c.Enforced() {
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
		if again && r.Allowed && (!c.Limits.Pays() || r.Over == (i >= c.Limits.Plan.Own())) {
			d.Remaining += c.Costs[i]
			e.used[i] -= c.Costs[i]
		}
	}
}

// hearDecisions takes the decisions of a reply. What Redis has not asked, as the rule's own limits
// admitted the request, is as it was.
func (e *said) hearDecisions(c *Check, r *redis.Reply) {
	for i := range r.Decisions {
		d := r.Decisions[i]
		if r.By == algo.ByLimits && d.Hidden && i >= c.Limits.Plan.Own() {
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
	if c.Limits.Pays() {
		if to = c.Limits.Plan.Own(); !b.fitsList(q, c, 0, to) {
			from, to = to, len(c.Costs)
		}
	}
	for _, part := range c.Limits.Parts {
		e := b.about(q, c, part)
		if e == nil || e.block.By != algo.ByLimits {
			continue
		}
		c.lent = true
		for _, limit := range part {
			if from <= limit && limit < to {
				e.lent[limit] += c.Costs[limit]
			}
		}
	}
}

// fitsList reports whether a check fits into all that is known of the limits from one on to another.
func (b *burst) fitsList(q *Question, c *Check, from, to int) bool {
	for _, part := range c.Limits.Parts {
		e := b.about(q, c, part)
		if e == nil || e.block.By != algo.ByLimits {
			continue
		}
		for _, limit := range part {
			if from <= limit && limit < to && !e.fits(limit, c) {
				return false
			}
		}
	}
	return true
}
