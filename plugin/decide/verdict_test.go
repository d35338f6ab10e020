package decide

import (
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// weighed makes a check of a rule, decided or not.
func weighed(name string, mode config.Mode, status Status, source Source, delayMicros int64) Check {
	return Check{
		Ask: Ask{Rule: &rule.Rule{Name: name, Enforced: mode == config.Enforce}},
		Said: Said{
			Status: status, Source: source,
			Decisions: []algo.Decision{{Allowed: status == Allowed, DelayMicros: delayMicros}},
		},
	}
}

// failing makes a check of a rule with a failure mode, which Redis has not decided.
func failing(name string, mode config.Mode, failure config.FailureMode) Check {
	c := weighed(name, mode, Undecided, FromNone, 0)
	c.Rule.Failure = failure
	return c
}

// The checks that the cases are made of. A rule's name says what its check is.
var (
	allowed        = weighed("allowed", config.Enforce, Allowed, FromRedis, 0)
	leased         = weighed("leased", config.Enforce, Allowed, FromLease, 0)
	queued         = weighed("queued", config.Enforce, Allowed, FromRedis, 70)
	queuedLonger   = weighed("queued-longer", config.Enforce, Allowed, FromRedis, 90)
	rejected       = weighed("rejected", config.Enforce, Rejected, FromRedis, 0)
	rejectedToo    = weighed("rejected-too", config.Enforce, Rejected, FromRedis, 0)
	remembered     = weighed("remembered", config.Enforce, Rejected, FromMemory, 0)
	onlyEmbedded   = weighed("embedded", config.Enforce, Rejected, FromEmbedded, 0)
	fallback       = weighed("fallback", config.Enforce, Allowed, FromFallback, 0)
	fallbackReject = weighed("fallback-reject", config.Enforce, Rejected, FromFallback, 0)
	undecided      = failing("undecided", config.Enforce, config.FailAllow)
	undecidedDeny  = failing("undecided-deny", config.Enforce, config.FailDeny)
	undecidedLocal = failing("undecided-local", config.Enforce, config.FailLocal) // the embedded store failed, too
	unasked        = weighed("unasked", config.Enforce, Unasked, FromNone, 0)
	shadowAllowed  = weighed("shadow-allowed", config.Shadow, Allowed, FromRedis, 0)
	shadowQueued   = weighed("shadow-queued", config.Shadow, Allowed, FromRedis, 500)
	shadowRejected = weighed("shadow-rejected", config.Shadow, Rejected, FromRedis, 0)
	shadowFailed   = failing("shadow-failed", config.Shadow, config.FailAllow)
	shadowDeny     = failing("shadow-deny", config.Shadow, config.FailDeny)
)

// verdicts are the checks of a request, and what is decided of it.
var verdicts = []struct {
	name    string
	checks  []Check
	event   Event
	outcome answer.Outcome
	by      string
	delay   int64
}{
	{name: "all allow", checks: []Check{allowed, leased}, event: Admitted, outcome: answer.Allowed},
	{name: "one rejects", checks: []Check{allowed, rejected}, event: Refused, outcome: answer.Limited, by: "rejected"},
	{
		name: "a remembered rejection", checks: []Check{unasked, remembered}, event: Refused, outcome: answer.Limited,
		by: "remembered",
	},
	{
		name: "the only store rejects", checks: []Check{onlyEmbedded}, event: Refused, outcome: answer.Limited,
		by: "embedded",
	},
	{
		name: "the fallback rejects", checks: []Check{allowed, fallbackReject}, event: Refused, outcome: answer.LocalLimited,
		by: "fallback-reject",
	},

	{
		name: "a rejection stands in mode allow", checks: []Check{rejected, undecided}, event: Refused,
		outcome: answer.Limited, by: "rejected",
	},
	{
		name: "a rejection stands in mode deny", checks: []Check{rejected, undecidedDeny}, event: Refused,
		outcome: answer.Limited, by: "rejected",
	},
	{
		name: "a rejection stands in mode local", checks: []Check{rejected, fallback}, event: Refused,
		outcome: answer.Limited, by: "rejected",
	},

	{name: "one failed in mode allow", checks: []Check{allowed, undecided}, event: Admitted, outcome: answer.FailedAllow},
	{
		name: "one failed in mode deny", checks: []Check{allowed, undecidedDeny}, event: Refused,
		outcome: answer.FailedDeny,
	},
	{name: "one was decided locally", checks: []Check{allowed, fallback}, event: Admitted, outcome: answer.LocalAllowed},
	{
		name: "the fallback failed, too", checks: []Check{fallback, undecidedLocal}, event: Admitted,
		outcome: answer.FailedAllow,
	},

	{
		name: "one that denies and one that allows", checks: []Check{undecided, undecidedDeny}, event: Refused,
		outcome: answer.FailedDeny,
	},
	{
		name: "one that denies and one that is local", checks: []Check{fallback, undecidedDeny}, event: Refused,
		outcome: answer.FailedDeny,
	},
	{
		name: "one that allows and one that is local", checks: []Check{fallback, undecided}, event: Admitted,
		outcome: answer.FailedAllow,
	},
	{
		name: "one that denies was decided", checks: []Check{allowed, undecided}, event: Admitted,
		outcome: answer.FailedAllow,
	},
	{
		name: "one that denies, and the fallback rejects", checks: []Check{fallbackReject, undecidedDeny},
		event: Refused, outcome: answer.LocalLimited, by: "fallback-reject",
	},
	{
		name: "one that denies, and a queue", checks: []Check{queued, undecidedDeny}, event: Refused,
		outcome: answer.FailedDeny,
	},
	{
		name: "a shadow rule that would deny, and one that allows", checks: []Check{undecided, shadowDeny},
		event: Admitted, outcome: answer.FailedAllow,
	},
	{
		name: "a shadow rule, and one that denies", checks: []Check{undecidedDeny, shadowRejected}, event: Refused,
		outcome: answer.FailedDeny,
	},

	{
		name: "a queue holds it", checks: []Check{allowed, queued, queuedLonger}, event: Queued,
		outcome: answer.Allowed, delay: 90,
	},
	{
		name: "a queue holds it, and one failed", checks: []Check{queued, undecided}, event: Queued,
		outcome: answer.FailedAllow, delay: 70,
	},
	{
		name: "a queue would hold it, but one rejects", checks: []Check{queued, rejected}, event: Refused,
		outcome: answer.Limited, by: "rejected",
	},

	{
		name: "a shadow rule within its limit", checks: []Check{allowed, shadowAllowed}, event: Admitted,
		outcome: answer.Allowed,
	},
	{
		name: "a shadow rule rejects", checks: []Check{allowed, shadowRejected}, event: Admitted,
		outcome: answer.ShadowLimited, by: "shadow-rejected",
	},
	{
		name: "a shadow rule's queue holds no request", checks: []Check{allowed, shadowQueued}, event: Admitted,
		outcome: answer.Allowed,
	},
	{
		name: "a shadow rule fails in mode allow", checks: []Check{allowed, shadowFailed}, event: Admitted,
		outcome: answer.Allowed,
	},
	{
		name: "a shadow rule fails in mode deny", checks: []Check{allowed, shadowDeny}, event: Admitted,
		outcome: answer.Allowed,
	},
	{
		name: "a shadow rule fails beside a rejection", checks: []Check{rejected, shadowFailed}, event: Refused,
		outcome: answer.Limited, by: "rejected",
	},
	{
		name: "a shadow rule rejects, and one failed", checks: []Check{undecided, shadowRejected}, event: Admitted,
		outcome: answer.FailedAllow,
	},
}

// The verdict, line by line of the design's section 1.4. Each case also holds with
// its checks in the opposite order, but for the rule that it names.
func TestVerdict(t *testing.T) {
	t.Parallel()
	for _, tc := range verdicts {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			q := &Question{}
			for order := range 2 {
				q.Checks = append(q.Checks[:0], tc.checks...)
				if order == 1 {
					for i, c := range tc.checks {
						q.Checks[len(tc.checks)-1-i] = c
					}
				}
				v := q.Verdict()
				if v.Event != tc.event {
					t.Errorf("event %s, want %s", v.Event, tc.event)
				}
				if v.Outcome != tc.outcome {
					t.Errorf("outcome %s, want %s", v.Outcome.Metric(), tc.outcome.Metric())
				}
				if v.DelayMicros != tc.delay {
					t.Errorf("delay %d us, want %d", v.DelayMicros, tc.delay)
				}
				by := ""
				if v.By != nil {
					by = v.By.Rule.Name
				}
				if by != tc.by {
					t.Errorf("by %q, want %q", by, tc.by)
				}
			}
		})
	}
}

// Of two rules that reject, the first in rule order is named.
func TestVerdictNamesTheFirstRule(t *testing.T) {
	t.Parallel()
	q := &Question{Checks: []Check{undecided, rejected, rejectedToo}}
	if v := q.Verdict(); v.By != &q.Checks[1] {
		t.Errorf("by %+v, want the first of the two", v.By)
	}
}
