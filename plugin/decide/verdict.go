package decide

import (
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
)

// Verdict is what to do with a request.
type Verdict struct {
	// Event is Admitted, Queued or Refused.
	Event Event
	// Outcome is what access logs and metrics say.
	Outcome answer.Outcome
	// By is the check whose rule the outcome names; nil if it names none.
	By *Check
	// DelayMicros is how long a Queued request is held.
	DelayMicros int64
}

// Verdict weighs the checks, each of which is decided, undecided or unasked. The
// order of rules and of replies makes no difference to it, but for which of two
// rejecting rules is named. A shadow rule's check changes nothing for the request.
func (q *Question) Verdict(mode config.FailureMode) Verdict {
	// A rejection stands, whatever became of the other checks.
	if c := q.first(enforcedRejection); c != nil {
		return Verdict{Event: Refused, Outcome: c.rejection(), By: c}
	}
	// The failure mode is for the checks that were not decided. In mode local the
	// embedded store has been asked before; if it failed, too, the request goes on.
	undecided := q.first(enforcedUndecided) != nil
	if undecided && mode == config.FailDeny {
		return Verdict{Event: Refused, Outcome: answer.FailedDeny}
	}
	v := Verdict{Event: Admitted, Outcome: answer.Allowed, DelayMicros: q.delayMicros()}
	if v.DelayMicros > 0 {
		v.Event = Queued
	}
	switch shadow := q.first(shadowRejection); {
	case undecided:
		v.Outcome = answer.FailedAllow
	case q.first(decidedByFallback) != nil:
		v.Outcome = answer.LocalAllowed
	case shadow != nil:
		v.Outcome, v.By = answer.ShadowLimited, shadow
	}
	return v
}

func enforcedRejection(c *Check) bool { return c.Status == Rejected && c.Enforced() }
func enforcedUndecided(c *Check) bool { return c.Status == Undecided && c.Enforced() }
func shadowRejection(c *Check) bool   { return c.Status == Rejected && !c.Enforced() }
func decidedByFallback(c *Check) bool { return c.Source == FromFallback }

// delayMicros is how long queues hold the request: the longest of their delays.
func (q *Question) delayMicros() (delay int64) {
	for i := range q.Checks {
		c := &q.Checks[i]
		if c.Status != Allowed || !c.Enforced() {
			continue
		}
		for j := range c.Decisions {
			delay = max(delay, c.Decisions[j].DelayMicros)
		}
	}
	return delay
}
