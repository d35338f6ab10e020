package decide

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/config"
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
	if c.Values != nil {
		if !b.rejectParts(q, c, now) {
			return false
		}
	} else {
		e := b.about(q, c, c.Tag)
		if e == nil || !e.exceeded(c, now) {
			return false
		}
		e.reject(c, now)
	}
	return c.Rule.Over == nil || c.By.Blocks()
}

// about returns Redis' last decision about a part of an undecided check's identity: nil if there is
// none since the request came, or if it was about limits of another size.
func (b *burst) about(q *Question, c *Check, part []byte) *said {
	if b.said == nil {
		return nil
	}
	e := b.said.Get(c.Limits.ID, part)
	if e == nil || e.atMicros < q.arrivedMicros {
		return nil
	}
	same := len(e.decisions) == len(c.Decisions) && slices.EqualFunc(e.sizes, c.own, sameSize)
	if e.block.By == algo.ByLimits && !same {
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
