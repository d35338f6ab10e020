package decide

import (
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
	var refuses, over, shadow *Check // the first of each kind
	rejections, denies, undecided, local := 0, false, false, false
	v := Verdict{Event: Admitted, Outcome: answer.Allowed}
	for i := range q.Checks {
		c := &q.Checks[i]
		switch enforced := c.Rule.Enforced; {
		case c.Status == Rejected && enforced:
			if rejections++; refuses == nil && !c.Over {
				refuses = c
			}
		case c.Status == Rejected && shadow == nil:
			shadow = c
		case c.Status == Undecided && enforced:
			undecided, denies = true, denies || failsDenying(c)
		case c.Status == Allowed && enforced:
			for j := range c.Decisions { // the longest delay of its queues
				v.DelayMicros = max(v.DelayMicros, c.Decisions[j].DelayMicros)
			}
		}
		if c.Over && over == nil {
			over = c
		}
		local = local || c.Source == FromFallback
	}
	switch {
	case refuses != nil: // it stands, whatever became of the other checks
		return Verdict{Event: Refused, Outcome: refuses.rejection(), By: refuses, Several: rejections > 1}
	case denies:
		// An undecided check gets the failure mode of its rule. In mode local the embedded store
		// was asked before; if that failed as well, the request goes on as in mode allow. One
		// check that denies is enough.
		return Verdict{Event: Refused, Outcome: answer.FailedDeny}
	case undecided:
		v.Outcome = answer.FailedAllow
	case over != nil:
		v.Outcome, v.By = answer.Over, over
	case local:
		v.Outcome = answer.LocalAllowed
	case shadow != nil:
		v.Outcome, v.By = answer.ShadowLimited, shadow
	}
	if v.DelayMicros > 0 {
		v.Event = Queued
	}
	return v
}

// What a check is, for those who look for one of a kind.

//go:inline
func enforcedRejection(c *Check) bool { return c.Status == Rejected && c.Rule.Enforced }

// failsDenying is an enforced check that was not decided, of a rule with this failure mode.
//
//go:inline
func failsDenying(c *Check) bool {
	return c.Status == Undecided && c.Rule.Enforced && c.Rule.Failure == config.FailDeny
}

// Outcome is the check's own result, whatever the others say.
func (c *Check) Outcome() answer.Outcome {
	rejected := c.Status == Rejected
	switch {
	case failsDenying(c):
		return answer.FailedDeny
	case c.Status == Undecided:
		return answer.FailedAllow
	case c.Over:
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

// isUnasked reports whether no store has been asked, or none has said anything yet.
//
//go:inline
func isUnasked(c *Check) bool { return c.Status == Unasked }
