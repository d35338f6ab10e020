package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// What overdue.go does where limits have "per": Redis' last word is noted of each part.

// rejectParts answers an undecided check if it asks for more than Redis has left to a part. It
// reports whether it has.
func (b *burst) rejectParts(q *Question, c *Check, now Time) bool {
	ruling := algo.Ruling{}
	var rejecting, lends bool // a pool rejects nobody whom the guarantee has room for
	guarantee, pool, pair := c.Limits.Plan.Guarantee()
	for _, part := range c.Limits.Parts {
		e := b.ofPart(q, c, part)
		if e == nil {
			continue
		}
		if e.block.By != algo.ByLimits {
			if !e.exceeded(c, now) {
				continue
			}
			e.reject(c, now)
			return true
		}
		for _, limit := range part {
			switch fits := e.decisions[limit].Hidden || e.fits(limit, c); {
			case pair && limit == guarantee:
				lends = fits && !e.decisions[limit].Hidden && c.Costs[limit] > 0
			case pair && limit == pool:
				rejecting = rejecting || !fits && !lends
			default:
				rejecting = rejecting || !fits
			}
		}
		ruling.AtMicros = e.storeMicros + now.SteadyMicros - e.atMicros
	}
	if rejecting {
		b.decideParts(q, c, now)
		c.ruled(FromBurst, &ruling, c.Decisions, 0)
	}
	return rejecting
}

// ofPart is Redis' last decision about a part of an undecided check's identity, see about.
func (b *burst) ofPart(q *Question, c *Check, part rule.Part) *said {
	name, applies := b.parts.name(&c.Ask, part)
	if !applies {
		return nil
	}
	return b.about(q, c, name)
}

// decideParts fills in the decisions of what is known.
func (b *burst) decideParts(q *Question, c *Check, now Time) {
	for i := range c.Decisions {
		c.Decisions[i] = algo.Decision{Allowed: true, Hidden: true}
	}
	guarantee, _, pair := c.Limits.Plan.Guarantee()
	for _, part := range c.Limits.Parts {
		e := b.ofPart(q, c, part)
		if e == nil || pair && part[0] == guarantee {
			continue
		}
		for _, limit := range part {
			if !e.decisions[limit].Hidden {
				c.Decisions[limit] = e.decide(limit, c, now.SteadyMicros-e.atMicros)
			}
		}
	}
}
