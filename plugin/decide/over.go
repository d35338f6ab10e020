package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
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
// when each rule that refuses it has room again, or its block is over. Where limits may pay for others, the
// list that has room sooner counts. algo.Never if waiting does not help.
func (q *Question) WaitMicros() (longest int64) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if !enforcedRejection(c) || c.Excused {
			continue
		}
		wait := c.LeftMicros
		if !c.By.Blocks() {
			wait = c.Limits.Plan.WaitMicros(c.Decisions)
		}
		longest = algo.LongerWait(longest, wait)
	}
	return longest
}

// sooner returns the shown limits of the list, the rule's own or its over's, that has room sooner, of a
// check that rejects.
func (c *Check) sooner(shown []answer.Limit) []answer.Limit {
	from, to := 0, c.Limits.Own
	others := algo.LongestWait(c.Decisions[to:])
	if others != 0 && algo.ShorterWait(others, algo.LongestWait(c.Decisions[:to])) == others {
		from, to = to, len(c.Decisions)
	}
	begin, end := 0, 0
	for j := range to {
		if c.shows(j) {
			if end++; j < from {
				begin++
			}
		}
	}
	return shown[begin:end]
}
