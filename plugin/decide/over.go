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
func (q *Question) setHeaders(host Host) {
	for i := len(q.Checks) - 1; i >= 0; i-- {
		if c := &q.Checks[i]; c.Over && len(c.Rule.Over.Headers) > 0 {
			host.SetHeaders(q.ContextID, c.Rule.Over.Headers)
		}
	}
}

// WaitMicros is after how long a refused request would be admitted, as far as its checks say:
// when each rule that refuses it has room again, or its block is over. Where limits may pay for others, the
// list that has room sooner counts. algo.Never if waiting does not help.
func (q *Question) WaitMicros() (longest int64) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if !enforcedRejection(c) || c.Over {
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

// explain says in a rejection what a request that is over waits for: the shown limits, by, of the list that has
// room sooner, of the rule's own and its over's.
func (q *Question) explain(r *answer.Rejection) {
	if r.Chained = q.has.over; r.Chained {
		r.WaitMicros = q.WaitMicros()
	}
	c := q.verdict.By
	if !c.Limits.Pays || c.By.Blocks() {
		return
	}
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
	r.By = r.By[begin:end]
}
