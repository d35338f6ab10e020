package decide

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// Verdict says what to do with a request.
type Verdict struct {
	// Event is Admitted, Queued or Refused.
	Event Event
	// Outcome is the word for access logs and metrics.
	Outcome answer.Outcome
	// By is the check whose rule the outcome names; nil if it names none.
	By *Check
	// Several reports whether more rules than one reject it.
	Several bool
	// DelayMicros is how long a Queued request is held.
	DelayMicros int64
}

// Verdict weighs the checks, each of which is decided, undecided or unasked. The
// order of rules and of replies makes no difference to it, but for which of two
// rejecting rules is named. A shadow rule's check changes nothing for the request.
func (q *Question) Verdict() Verdict {
	if q.over {
		for i := range q.Checks {
			c := &q.Checks[i]
			c.Excused = c.Excused || c.isOver()
		}
	}
	// A rejection stands, whatever became of the other checks.
	if c := q.first(rejectsAlone); c != nil {
		rejections := 0
		for i := range q.Checks {
			if enforcedRejection(&q.Checks[i]) {
				rejections++
			}
		}
		return Verdict{Event: Refused, Outcome: c.rejection(), By: c, Several: rejections > 1}
	}
	// An undecided check gets the failure mode of its rule. In mode local the embedded store
	// was asked before; if that failed as well, the request goes on as in mode allow. One
	// check that denies is enough.
	if q.first(failsDenying) != nil {
		return Verdict{Event: Refused, Outcome: answer.FailedDeny}
	}
	v := Verdict{Event: Admitted, Outcome: answer.Allowed, DelayMicros: q.delayMicros()}
	if v.DelayMicros > 0 {
		v.Event = Queued
	}
	switch over, shadow := q.first(isExcused), q.first(shadowRejection); {
	case q.first(enforcedUndecided) != nil:
		v.Outcome = answer.FailedAllow
	case over != nil:
		v.Outcome, v.By = answer.Over, over
	case q.first(decidedByFallback) != nil:
		v.Outcome = answer.LocalAllowed
	case shadow != nil:
		v.Outcome, v.By = answer.ShadowLimited, shadow
	}
	return v
}

// delayMicros is how long queues hold the request: the longest of their delays.
func (q *Question) delayMicros() (delay int64) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Status != Allowed || !c.Rule.Enforced {
			continue
		}
		for j := range c.Decisions {
			delay = max(delay, c.Decisions[j].DelayMicros)
		}
	}
	return delay
}

// What a check is, for those who look for one of a kind.

//go:inline
func enforcedRejection(c *Check) bool { return c.Status == Rejected && c.Rule.Enforced }

//go:inline
func enforcedUndecided(c *Check) bool { return c.Status == Undecided && c.Rule.Enforced }
func shadowRejection(c *Check) bool   { return c.Status == Rejected && !c.Rule.Enforced }

//go:inline
func decidedByFallback(c *Check) bool { return c.Source == FromFallback }

// failsDenying is an enforced check that was not decided, of a rule with this failure mode.
//
//go:inline
func failsDenying(c *Check) bool {
	return enforcedUndecided(c) && c.Rule.Failure == config.FailDeny
}

// isOver reports whether the check's rejection is one that nothing has to pay for: it concludes
// nothing, also a remembered one, and the other rules are asked.
func (c *Check) isOver() bool {
	return c.Rule.Excuses && enforcedRejection(c) && c.By == algo.ByLimits
}

func isExcused(c *Check) bool { return c.Excused }

// Outcome is the check's own result, whatever the others say.
func (c *Check) Outcome() answer.Outcome {
	rejected := c.Status == Rejected
	switch {
	case failsDenying(c):
		return answer.FailedDeny
	case c.Status == Undecided:
		return answer.FailedAllow
	case c.Excused:
		return answer.Over
	case rejected && !c.Rule.Enforced:
		return answer.ShadowLimited
	case rejected:
		return c.rejection()
	case c.Source == FromFallback:
		return answer.LocalAllowed
	}
	return answer.Allowed
}

// rejection is the outcome of a check that rejects the request.
func (c *Check) rejection() answer.Outcome {
	switch {
	case c.By.Blocks():
		return answer.Blocked
	case c.Source == FromFallback:
		return answer.LocalLimited
	}
	return answer.Limited
}

// rejectsAlone reports whether the check is enough to refuse the request.
func rejectsAlone(c *Check) bool { return enforcedRejection(c) && !c.isOver() }

// first returns the first check of a kind, in rule order, or nil.
//
//go:inline
func (q *Question) first(is func(*Check) bool) *Check {
	for i := range q.Checks {
		if c := &q.Checks[i]; is(c) {
			return c
		}
	}
	return nil
}

// keepsRemembered reports whether remembered rejections that are excused are all that there is: then
// they need not be asked about again.
func keepsRemembered(q *Question) bool {
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Status != Allowed && c.Status != Rejected || c.Source == FromMemory && !c.isOver() {
			return false
		}
	}
	return true
}

// isUnasked reports whether no store has been asked, or none has said anything yet.
//
//go:inline
func isUnasked(c *Check) bool { return c.Status == Unasked }
