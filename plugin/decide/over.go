package decide

import (
	"github.com/sluiceproxy/sluice/algo"
)

// Rules with an over. A request that such a rule's limits reject goes on if limits of the over have
// paid for it, in the same call, or if there are none: the rejection then is excused, with headers that
// say so. Where limits of the over reject, too, the check rejects as any other.

// setHeaders sets the headers of the rules that are over. Where several set one header, that of
// the first rule counts.
func (w *Worker) setHeaders(q *Question) {
	for i := len(q.Checks) - 1; i >= 0; i-- {
		if c := &q.Checks[i]; c.Excused && len(c.Rule.Over.Headers) > 0 {
			w.host.SetHeaders(q.ContextID, c.Rule.Over.Headers)
		}
	}
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

// waitMicros is the longest wait of the limits that reject, or what is left of a block. Where limits
// may pay for others, the list that has room sooner counts.
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
