package decide

import (
	"bytes"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// This file is what the client is told: of the limits with any response, and of a rejection.

// shown is what the client is shown: the limits of the enforced rules whose checks were
// decided, and the time of the decisions; 0 if no store was asked, as a limit is 0. It is
// good until the next call.
func (w *Worker) shown(q *Question) (limits []answer.Limit, atMicros int64) {
	limits, _, atMicros = w.shownWith(q, nil)
	return limits, atMicros
}

// shownWith is shown, and of these limits those of one check.
func (w *Worker) shownWith(q *Question, by *Check) (limits, of []answer.Limit, atMicros int64) {
	limits = w.rejection.Limits[:0]
	for i := range q.Checks {
		c := &q.Checks[i]
		if !c.Enforced() || !c.Decided() {
			continue
		}
		begin := len(limits)
		atMicros, limits = c.AtMicros, w.stores.plans.appendShown(limits, c)
		if c == by {
			of = limits[begin:]
		}
	}
	w.rejection.Limits = limits
	return limits, of, atMicros
}

// reject is the rejection of a request that is refused. It is good until the next call.
func (w *Worker) reject(q *Question) *answer.Rejection {
	r, by := &w.rejection, q.verdict.By
	limits, of, atMicros := w.shownWith(q, by)
	*r = answer.Rejection{Text: w.text(q.verdict), Limits: limits, By: of, AtMicros: atMicros, Undecided: by == nil}
	if by != nil {
		r.Blocked, r.LeftMicros = by.By.Blocks(), by.LeftMicros
		r.Identity = text.View(by.Tag[bytes.IndexByte(by.Tag, '|')+1:])
	}
	return r
}

// appendShown appends the limits of a check that was decided.
func (p plans) appendShown(dst []answer.Limit, c *Check) []answer.Limit {
	var sized []algo.Limit
	if c.Sizes != nil {
		sized = p.of(c.Limits, c.Sizes).Limits()
	}
	for j := range c.Decisions {
		if !c.shows(j) {
			continue
		}
		shown := answer.Limit{Label: &c.Limits.Labels[j], Decision: c.Decisions[j], Blocked: c.By.Blocks()}
		if sized != nil {
			shown.Sized = &sized[j]
		}
		dst = append(dst, shown)
	}
	return dst
}
