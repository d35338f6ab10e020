package decide

import (
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Requests for the quota, which Sluice answers itself. The question about one has the checks of the
// rules that apply to it, as ever, and behind them those that report: what the caller has left of the
// listed rules. Those have cost 0 and are of rules in shadow (rule/quota.go), so that they charge
// nothing, reject no request and are shown in no header; no layer but Redis, or the embedded store, answers
// them. They are asked each time.

// Reports marks a new question as one about a request for the quota. The request never goes on: Host.Report
// or Host.Answer answers it.
func (q *Question) Reports(asking rule.Asking) { q.asking = asking }

// isReport reports whether the check is there to be reported, and decides nothing.
func (c *Check) isReport() bool { return c.Rule.Reports }

// served is the verdict on a request for the quota that is not refused, given that by the rules that
// apply to it.
func (q *Question) served(v Verdict) Verdict {
	for i := range q.Checks {
		if c := &q.Checks[i]; c.Status == Undecided && c.isReport() {
			return Verdict{Event: Refused, Outcome: answer.FailedDeny}
		}
	}
	v.Outcome, v.By = answer.Quota, nil
	if v.Event == Admitted {
		v.Event = Served
	}
	return v
}

// atItsTurn is the event of a request that a queue has held for long enough.
func (q *Question) atItsTurn() Event {
	if q.asking != rule.NotForQuota {
		return Served
	}
	return TurnComes
}

// report is the answer to a request for the quota. It is good until the next call.
//
//go:noinline
func (d *display) report(q *Question) *answer.Report {
	r := &d.quota
	*r = answer.Report{Text: d.text(q.verdict), Limits: r.Limits[:0], OtherMethod: q.asking == rule.ByAnotherMethod}
	for i := range q.Checks {
		c := &q.Checks[i]
		switch {
		case !c.isReport() || !c.Decided():
		case c.By.Blocks():
			r.Block(c.LeftMicros)
		default:
			r.Limits = d.plans.appendShown(r.Limits, c)
		}
	}
	return r
}
