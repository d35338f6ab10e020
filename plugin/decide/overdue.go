package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// What the worker decides of a request that Redis has left undecided in a crowd, by what it has
// noted of the identity.

// endOverdue decides what it can of a request of which Redis leaves some check undecided, by what it
// has said to others of a crowd.
//
//go:noinline
func (s *Stores) endOverdue(q *Question, now Time) {
	rejected := false
	for i := range q.Checks {
		if c := &q.Checks[i]; isUndecided(c) && c.Enforced() {
			rejected = s.burst.rejects(q, c, now) || rejected
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
		if c := &q.Checks[i]; isUndecided(c) && c.Enforced() && c.Rule.Failure != config.FailDeny {
			s.burst.lend(q, c)
		}
	}
}

// rejects answers an undecided check that asks for more than Redis has left. It reports whether the
// request is refused for it.
func (b *burst) rejects(q *Question, c *Check, now Time) bool {
	ruling := algo.Ruling{}
	var rejecting, lends bool // a pool rejects no request that the guarantee has room for
	guarantee, pool, pair := c.Limits.Plan.Guarantee()
	for _, part := range c.Limits.Parts {
		e := b.about(q, c, part)
		if e == nil {
			continue
		}
		if e.block.By != algo.ByLimits {
			if !e.blocks(now) {
				continue
			}
			e.reject(c, now)
			return true
		}
		for _, limit := range part {
			switch hidden, fits := e.decisions[limit].Hidden, e.fits(limit, c); {
			case pair && limit == guarantee:
				lends = fits && !hidden && c.Costs[limit] > 0
			case pair && limit == pool: // hidden where the guarantee has admitted, and known all the same
				rejecting = rejecting || !fits && !(lends && e.fitsDebt(limit, c))
			default:
				rejecting = rejecting || !fits && !hidden
			}
		}
		ruling.AtMicros = e.storeMicros + now.SteadyMicros - e.atMicros
	}
	if own := c.Limits.Plan.Own(); rejecting && c.Limits.Pays() {
		pays := charges(c.Costs[own:]) && b.fitsList(q, c, own, len(c.Costs))
		rejecting = !pays && !b.fitsList(q, c, 0, own)
	}
	if rejecting {
		b.decideParts(q, c, now)
		c.ruled(FromBurst, &ruling, c.Decisions, 0)
	}
	return rejecting && !c.isOver()
}

// decideParts fills in the decisions of what is known.
func (b *burst) decideParts(q *Question, c *Check, now Time) {
	for i := range c.Decisions {
		c.Decisions[i] = algo.Decision{Allowed: true, Hidden: true}
	}
	guarantee, pool, pair := c.Limits.Plan.Guarantee()
	for _, part := range c.Limits.Parts {
		e := b.about(q, c, part)
		if e == nil || pair && part[0] == guarantee {
			continue
		}
		for _, limit := range part {
			if !e.decisions[limit].Hidden || pair && limit == pool {
				c.Decisions[limit] = e.decide(limit, c, now.SteadyMicros-e.atMicros)
			}
		}
	}
}

// about returns Redis' last decision about a part of an undecided check's identity: nil if there is
// none since the request came.
func (b *burst) about(q *Question, c *Check, part rule.Part) *said {
	name, applies := b.parts.name(&c.Ask, part)
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

// fits reports whether a check's cost of a limit does not exceed the units that are left.
func (e *said) fits(i int, c *Check) bool {
	cost := c.Costs[i]
	return cost == 0 || cost <= e.remaining(i, c)-e.lent[i]
}

// fitsDebt reports whether the cost of a request within its guarantee fits into the pool's debt.
func (e *said) fitsDebt(pool int, c *Check) bool {
	l := c.Limit(pool)
	return c.Costs[pool] <= 2*l.Capacity()-e.used[pool]-e.lent[pool]
}

// remaining is how much Redis has left of a limit of a check's size and class, at most.
func (e *said) remaining(i int, c *Check) int64 {
	if e.isOf(i, c) {
		return e.decisions[i].Remaining
	}
	l := c.Limit(i)
	return l.Room() - e.used[i]
}

// isOf reports whether the decision was about a limit of a check's size and class.
func (e *said) isOf(i int, c *Check) bool {
	return c.own == nil || sameSize(e.sizes[i], c.own[i]) && e.sizes[i].Ceiling == c.own[i].Ceiling
}

// blocks reports whether the identity is under a block that still lasts.
func (e *said) blocks(now Time) bool { return e.block.By.Blocks() && e.left(now) != 0 }
