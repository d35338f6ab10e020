package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Rules with an over. What such a rule rejects is not refused: the request goes on with headers,
// or a purse pays for it. So the rejection concludes nothing, also a remembered one, and the other
// rules are asked. When all of them have answered, and none refuses the request, its purses are
// asked, within the same timeout. A purse's check stands behind those of the rules that apply, and
// is like them in all else: charged, given back, settled and shown.

// isOver reports whether the check's rejection is one that need not refuse the request.
func (c *Check) isOver() bool {
	return c.Rule.Over != nil && enforcedRejection(c) && !c.By.Blocks()
}

// charges reports whether a purse has to pay for the check.
func (c *Check) charges() bool { return c.isOver() && c.Rule.Over.Purse != nil }

// refuses reports whether the check refuses the request, whatever purses say.
func (c *Check) refuses() bool { return enforcedRejection(c) && !c.Rule.Only && !c.isOver() }

// isRefused reports whether the request is refused, whatever its purses say.
func (q *Question) isRefused() bool {
	return q.first((*Check).refuses) != nil ||
		q.first(func(c *Check) bool { return failsDenying(c) && !c.Rule.Only }) != nil
}

// excuse finds the rejections that do not refuse the request: those that no purse has to pay for,
// that were paid for, and that no purse was asked about because the request is refused anyway.
func (q *Question) excuse() {
	refused := q.isRefused()
	for i := range q.Checks {
		c := &q.Checks[i]
		switch {
		case !c.isOver() || c.Excused:
		case c.Rule.Over.Purse == nil:
			c.Excused = true
		default:
			p := q.purseOf(c)
			c.Excused = refused && p == nil || p != nil && p.Status == Allowed
		}
	}
}

// refusal is the check that a refused request is refused by: the first that is not excused, or the
// purse that did not pay for it. nil if each rejection is excused.
func (q *Question) refusal() *Check {
	c := q.first(func(c *Check) bool { return enforcedRejection(c) && !c.Excused })
	if c != nil && c.isOver() {
		if p := q.purseOf(c); p != nil && p.Status == Rejected {
			return p
		}
	}
	return c
}

// WaitMicros is after how long a refused request would be admitted, as far as its checks say:
// when each rule that refuses it, or the purse of that rule, has room again. algo.Never if
// waiting does not help.
func (q *Question) WaitMicros() (longest int64) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if !enforcedRejection(c) || c.Excused || c.Rule.Only {
			continue
		}
		wait := c.waitMicros()
		if c.isOver() {
			if p := q.purseOf(c); p != nil && p.Status == Rejected {
				wait = algo.ShorterWait(wait, p.waitMicros())
			}
		}
		longest = algo.LongerWait(longest, wait)
	}
	return longest
}

// waitMicros is the longest wait of the limits that reject, or what is left of a block.
func (c *Check) waitMicros() int64 {
	if c.By.Blocks() {
		return c.LeftMicros
	}
	return algo.LongestWait(c.Decisions)
}

// keepsRemembered reports whether remembered rejections conclude a request, as there is nothing
// else to ask: then they need not be asked about again.
func keepsRemembered(q *Question) bool {
	for i := range q.Checks {
		c := &q.Checks[i]
		if !c.Decided() || c.Source == FromMemory && (!c.isOver() || c.charges()) {
			return false
		}
	}
	return true
}

// recallOver lets remembered rejections stand for what Redis has left undecided.
func recallOver(s *Stores, q *Question, now Time) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Rule.Over != nil && enforcedUndecided(c) {
			if s.askAbout(c, memoryLayer, q, now); c.Status == Allowed {
				c.Status, c.Source = Undecided, FromNobody
			}
		}
	}
}

// rememberOver remembers the rejections of a request that goes on.
func rememberOver(s *Stores, q *Question, now Time) {
	for i := range q.Checks {
		if c := &q.Checks[i]; c.isOver() {
			s.memory.remember(c, false, now)
		}
	}
}

// hasOver reports whether a rule's rejections may be excused.
func hasOver(r *rule.Rule) bool { return r.Over != nil }
