package decide

import (
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// overdueRules are a rule that is enforced, with a penalty, and a shadow rule.
const overdueRules = `{"redis": {"cluster": "redis"}, "failure": {"mode": "%s"}, "deny_cache": {"size": 0}, "rules": [
	{"name": "r", "key": [{"header": "x-user"}], "cost": {"header": "x-cost", "default": 1, "max": 50},
	 "penalty": {"after": 2, "within": "1m", "for": ["1m"]},
	 "limits": [{"algorithm": "fixed_window", "limit": 10, "window": "1h"}]},
	{"name": "shadow", "mode": "shadow", "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}]}]}`

// newCrowd is a world in a crowd of which the worker keeps no request back.
func newCrowd(t *testing.T, text string, arguments ...any) *world {
	t.Helper()
	w := newWorld(t, 1, text, arguments...)
	w.stores.burst.on = true
	w.stores.burst.number++
	return w
}

// hears has Redis say something to another request: a reply for each of its first checks.
func (w *world) hears(h headers, replies ...redis.Reply) {
	q := w.begin(h)
	for i := range replies {
		w.stores.burst.hear(&q.Checks[i], &replies[i], false, w.now.SteadyMicros)
	}
}

// overdue concludes a request whose time is over.
func (w *world) overdue(q *Question) Verdict {
	q.kept.overdue = true
	q.giveUp()
	return w.stores.Conclude(q, w.now)
}

// decided returns a fixed window's answer: it rejects if there is something to wait for.
func decided(remaining, retryMicros int64) algo.Decision {
	return algo.Decision{
		Allowed: retryMicros == 0, Remaining: remaining, ResetAfterMicros: 5e6, RetryAfterMicros: retryMicros,
	}
}

// replied is a reply of the limits' decisions.
func replied(decisions ...algo.Decision) redis.Reply {
	r := redis.Reply{Ruling: algo.Ruling{AtMicros: 1, Allowed: true, By: algo.ByLimits}, Decisions: decisions}
	for i := range decisions {
		r.Allowed = r.Allowed && decisions[i].Allowed
	}
	return r
}

// What Redis has said of an identity since a request of it came says whether the failure mode
// decides about it.
func TestOverdue(t *testing.T) {
	t.Parallel()
	const limited, allow = answer.Limited, answer.FailedAllow
	block := redis.Reply{Ruling: algo.Ruling{By: algo.ByPenalty, LeftMicros: 1e6}}
	forever := redis.Reply{Ruling: algo.Ruling{By: algo.ByBlock, LeftMicros: algo.Never}}
	free := redis.Reply{Ruling: algo.Ruling{By: algo.ByFree, Allowed: true}}
	earned := replied(decided(0, 5e6))
	earned.EarnedMicros = 1e6
	for _, tc := range []struct {
		name       string
		said       redis.Reply
		cost, asks string
		passes     int64 // between the two
		want       answer.Outcome
		retry      int64 // after so many us
	}{
		{name: "rejected", said: replied(decided(0, 5e6)), want: limited, retry: 5e6},
		{name: "rejected, a moment ago", said: replied(decided(0, 5e6)), passes: 1000, want: limited, retry: 5e6 - 1000},
		{name: "rejected, the wait is over", said: replied(decided(0, 100)), passes: 1000, want: limited, retry: 1},
		{name: "rejected at a higher cost", said: replied(decided(3, 5e6)), cost: "4", asks: "3", want: allow},
		{name: "rejected at a lower cost", said: replied(decided(3, 100)), cost: "4", asks: "5", want: limited, retry: 100},
		{name: "more than there is", said: replied(decided(3, 100)), cost: "4", asks: "50", want: limited, retry: algo.Never},
		{name: "admitted", said: replied(decided(3, 0)), asks: "3", want: allow},
		{name: "admitted, with too little left", said: replied(decided(3, 0)), asks: "4", want: limited, retry: 5e6},
		{name: "it asks for nothing", said: replied(decided(0, 5e6)), asks: "0", want: allow},
		{name: "free", said: free, want: allow},
		{name: "blocked", said: block, want: answer.Blocked, retry: 1e6},
		{name: "blocked without end", said: forever, asks: "0", want: answer.Blocked, retry: algo.Never},
		{name: "blocked, and no more", said: block, passes: 1e6, want: allow},
		{name: "it has earned a block", said: earned, want: answer.Blocked, retry: 1e6},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newCrowd(t, overdueRules, "allow")
			q := w.begin(headers{"x-user": "u", "x-cost": tc.asks})
			w.hears(headers{"x-user": "u", "x-cost": tc.cost}, tc.said)
			w.now.SteadyMicros += tc.passes
			if v := w.overdue(q); v.Outcome != tc.want {
				t.Fatalf("%s, want %s", v.Outcome.Metric(), tc.want.Metric())
			}
			if d := q.Checks[0].Decisions[0]; tc.want != allow && d.RetryAfterMicros != tc.retry {
				t.Errorf("retry after %d us, want %d", d.RetryAfterMicros, tc.retry)
			}
		})
	}
}

// What was said before a request came says nothing about it, and a shadow rule's rejection
// nothing about anything.
func TestOverdueForOthers(t *testing.T) {
	t.Parallel()
	w := newCrowd(t, overdueRules, "allow")
	u, full := headers{"x-user": "u", "x-cost": "1"}, replied(decided(0, 5e6))
	w.hears(u, full, full)
	w.now.SteadyMicros++
	late := w.begin(u)
	if v := w.overdue(late); v.Outcome != answer.FailedAllow {
		t.Errorf("one that came later: %s", v.Outcome.Metric())
	}
	if n := w.failed[redis.Overload]; n != 1 {
		t.Errorf("%d requests were counted as kept back too long, want 1", n)
	}
	if w.stores.burst.said.Get(1, late.Checks[1].Tag) != nil {
		t.Error("what was said of a shadow rule's identity is noted")
	}
}

// The failure mode lends what is left once; one that denies lends nothing.
func TestOverdueLends(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string][5]answer.Outcome{
		"allow": {answer.FailedAllow, answer.FailedAllow, answer.FailedAllow, answer.Limited, answer.Limited},
		"deny":  {answer.FailedDeny, answer.FailedDeny, answer.FailedDeny, answer.FailedDeny, answer.FailedDeny},
		"local": {answer.LocalAllowed, answer.LocalAllowed, answer.LocalAllowed, answer.Limited, answer.Limited},
	} {
		w := newCrowd(t, overdueRules, mode)
		u, threeLeft := headers{"x-user": "u", "x-cost": "1"}, replied(decided(3, 0))
		var all []*Question
		for range want {
			all = append(all, w.begin(u))
		}
		w.hears(u, threeLeft)
		for i, q := range all {
			if i == 3 {
				w.hears(u, threeLeft) // what was lent is not in Redis
			}
			if v := w.overdue(q); v.Outcome != want[i] {
				t.Errorf("%s, request %d: %s, want %s", mode, i, v.Outcome.Metric(), want[i].Metric())
			}
		}
	}
}

// Such a rejection is none that a penalty counts, as Redis might have admitted the request.
func TestOverdueIsNoStrike(t *testing.T) {
	t.Parallel()
	w := newCrowd(t, overdueRules, "allow")
	u := headers{"x-user": "u", "x-cost": "1"}
	q := w.begin(u)
	w.hears(u, replied(decided(0, 5e6)))
	w.overdue(q)
	if kept := w.stores.penalties.kept(&q.Checks[0].Ask); kept != nil {
		t.Errorf("kept against it: %+v", kept)
	}
	if n := w.events[metric.DenyCacheHit]; n != 0 {
		t.Errorf("%d rejections count as the deny cache's", n)
	}
}
