package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Rules with an over. A request that such a rule's limits reject goes on if limits of the over have
// paid for it, in the same call, or if there are none: the rejection then is excused, with headers that
// say so. Where limits of the over reject, too, the check rejects as any other.

// isOver reports whether the check's rejection is one that nothing has to pay for: it concludes
// nothing, also a remembered one, and the other rules are asked.
func (c *Check) isOver() bool {
	return excuses(c.Rule) && enforcedRejection(c) && !c.By.Blocks()
}

// excuses reports whether a rule's rejections are excused though nothing pays for them.
func excuses(r *rule.Rule) bool { return r.Over != nil && !r.Over.Pays }

// excuse finds the rejections that do not refuse the request, and that no limits have paid for.
func (q *Question) excuse() {
	for i := range q.Checks {
		c := &q.Checks[i]
		c.Excused = c.Excused || c.isOver()
	}
}

func isExcused(c *Check) bool { return c.Excused }

// setHeaders sets the headers of the rules that are over. Where several set one header, that of
// the first rule counts.
func (w *Worker) setHeaders(q *Question) {
	for i := len(q.Checks) - 1; i >= 0; i-- {
		if c := &q.Checks[i]; c.Excused && len(c.Rule.Over.Headers) > 0 {
			w.host.SetHeaders(q.ContextID, c.Rule.Over.Headers)
		}
	}
}

// keepsRemembered reports whether remembered rejections that are excused are all that there is: then
// they need not be asked about again.
func keepsRemembered(q *Question) bool {
	for i := range q.Checks {
		c := &q.Checks[i]
		if !c.Decided() || c.Source == FromMemory && !c.isOver() {
			return false
		}
	}
	return true
}

// WaitMicros is after how long a refused request would be admitted, as far as its checks say:
// when each rule that refuses it has room again. algo.Never if waiting does not help.
func (q *Question) WaitMicros() (longest int64) {
	for i := range q.Checks {
		if c := &q.Checks[i]; enforcedRejection(c) && !c.Excused {
			longest = algo.LongerWait(longest, c.waitMicros())
		}
	}
	return longest
}

// waitMicros is the longest wait of the limits that reject, or what is left of a block; where limits
// may pay for others, that of the list that has room sooner.
func (c *Check) waitMicros() int64 {
	if c.By.Blocks() {
		return c.LeftMicros
	}
	return c.Limits.Plan.WaitMicros(c.Decisions)
}

// soonerList is the limits, from one on to another, of the list that has room sooner, of a check that
// rejects.
func (c *Check) soonerList() (from, to int) {
	own := c.Limits.Own
	others := algo.LongestWait(c.Decisions[own:])
	if others != 0 && algo.ShorterWait(others, algo.LongestWait(c.Decisions[:own])) == others {
		return own, len(c.Decisions)
	}
	return 0, own
}
