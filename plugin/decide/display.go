package decide

import (
	"bytes"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// This file tells the client of its limits, with any response, and of a rejection.

// display tells clients and access logs of a request.
type display struct {
	texts  answer.Texts     // of the outcomes that name no rule
	plans  plans            // scratch
	answer answer.Rejection // scratch, with the memory of limits
	quota  answer.Report    // scratch, too
}

// text is the verdict as access logs write it.
func (d *display) text(v Verdict) string {
	if v.By != nil {
		return v.By.Rule.Texts[v.Outcome]
	}
	return d.texts[v.Outcome]
}

// limits are the limits that the client is shown: of the enforced rules whose checks were
// decided; which of them belong to one check; and the time of the decisions, or 0 if no store was asked
// because a limit is 0. They are valid until the next call.
func (d *display) limits(q *Question, by *Check) (limits, of []answer.Limit, atMicros int64) {
	limits = d.answer.Limits[:0]
	for i := range q.Checks {
		c := &q.Checks[i]
		if !c.Rule.Enforced || !c.Decided() {
			continue
		}
		begin := len(limits)
		atMicros, limits = c.AtMicros, d.plans.appendShown(limits, c)
		if c == by {
			of = limits[begin:]
		}
	}
	d.answer.Limits = limits
	return limits, of, atMicros
}

// rejection returns the rejection of a refused request. It is valid until the next call.
//
//go:noinline
func (d *display) rejection(q *Question) *answer.Rejection {
	r, by := &d.answer, q.verdict.By
	limits, of, atMicros := d.limits(q, by)
	*r = answer.Rejection{Text: d.text(q.verdict), Limits: limits, By: of, AtMicros: atMicros, Undecided: by == nil}
	if by != nil {
		r.Blocked, r.LeftMicros = by.By.Blocks(), by.LeftMicros
		r.Silent, r.Response = by.Rule.Silent, by.Rule.Response
		q.explain(r)
		r.Identity = text.View(by.Tag[bytes.IndexByte(by.Tag, '|')+1:])
	}
	return r
}

// plans are of limits whose sizes came with a request. By rule.LimitSet.ID.
type plans []algo.Plan

// appendShown appends the limits of a check that was decided.
func (p plans) appendShown(dst []answer.Limit, c *Check) []answer.Limit {
	var sized []algo.Limit
	if c.Sizes != nil {
		sized = c.Limits.Plan.At(&p[c.Limits.ID], c.Sizes).Limits()
	}
	for j := range c.Decisions {
		if !c.shows(j) {
			continue
		}
		shown := answer.Limit{Label: &c.Limits.Labels[j], Decision: c.Decisions[j], Blocked: c.By.Blocks()}
		if c.Over && !shown.Decision.Allowed {
			shown.Decision.Allowed, shown.Decision.Remaining = true, 0
		}
		if sized != nil {
			shown.Sized = &sized[j]
		}
		if c.Values != nil {
			shown.Values, _ = c.Limits.ValuesOf(c.Values, j)
		}
		dst = append(dst, shown)
	}
	return dst
}
