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
		if !c.Decided() || c.Source == FromMemory && (!c.isOver() || c.Rule.Over.Purse != nil) {
			return false
		}
	}
	return true
}

// hasOver reports whether a rule's rejections may be excused.
func hasOver(r *rule.Rule) bool { return r.Over != nil }
