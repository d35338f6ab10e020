package decide

import (
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

const overdueParts = `{"redis": {"cluster": "redis"}, "deny_cache": {"size": 0}, "rules": [
	{"name": "r", "key": [{"header": "x-org"}], "cost": {"header": "x-cost", "default": 1, "max": 5}, "limits": [
	{"algorithm": "fixed_window", "limit": 10, "window": "1h", "name": "all"},
	{"algorithm": "fixed_window", "limit": 5, "window": "1h", "name": "user", "per": [{"header": "x-user"}]}]}]}`

// saysOf is Redis' answer about an organisation and one of its users.
func saysOf(all, user algo.Decision) redis.Reply {
	return redis.Reply{
		Ruling:    algo.Ruling{AtMicros: 1, Allowed: all.Allowed && user.Allowed, By: algo.ByLimits},
		Decisions: []algo.Decision{all, user},
	}
}

// TestOverdueParts: what Redis has said to ann in a crowd, and to no other user, says what the failure mode
// may let go: of ann what her part and the organisation's hold, of others what the organisation's does.
func TestOverdueParts(t *testing.T) {
	t.Parallel()
	left := func(n int64) algo.Decision { return algo.Decision{Allowed: true, Remaining: n, ResetAfterMicros: 5e6} }
	none := algo.Decision{ResetAfterMicros: 5e6, RetryAfterMicros: 5e6}
	const limited, allow = answer.Limited, answer.FailedAllow
	type asking struct {
		user, cost string
		want       answer.Outcome
	}
	for _, tc := range []struct {
		name string
		said redis.Reply
		asks []asking // of the same crowd
	}{
		{"ann has used hers up", saysOf(left(3), left(0)), []asking{{"ann", "1", limited}, {"bob", "1", allow}}},
		{"ann is rejected", saysOf(left(6), none), []asking{{"ann", "1", limited}, {"bob", "5", allow}}},
		{"the organisation is rejected", saysOf(none, left(4)), []asking{{"ann", "1", limited}, {"bob", "1", limited}}},
		{"more than the organisation has", saysOf(left(3), left(4)), []asking{{"bob", "4", limited}, {"bob", "3", allow}}},
		{
			"what is lent to one is lent", saysOf(left(3), left(4)),
			[]asking{{"bob", "2", allow}, {"ann", "2", limited}, {"cy", "1", allow}, {"cy", "1", limited}},
		},
		{
			"lent to her part", saysOf(left(9), left(2)),
			[]asking{{"ann", "2", allow}, {"ann", "1", limited}, {"bob", "1", allow}},
		},
	} {
		w := burstWorld{newWorld(t, 1, overdueParts)}
		w.stores.burst.begin()
		from := func(user, cost string) *Question {
			q := w.begin(headers{"x-org": "o", "x-user": user, "x-cost": cost})
			q.arrivedMicros = w.now.SteadyMicros
			return q
		}
		var asked []*Question
		for _, a := range tc.asks {
			asked = append(asked, from(a.user, a.cost))
		}
		heard := from("ann", "1")
		w.stores.burst.hear(&heard.Checks[0], &tc.said, false, w.now.SteadyMicros)
		for n, a := range tc.asks {
			got := w.end(asked[n]).Outcome.Metric()
			testenv.Same(t, tc.name+": "+a.user+" at "+a.cost, got, a.want.Metric())
		}
	}
}

// TestOverdueOver: a rule with "over" lets a request go on, so the failure mode lends it what another
// rule's identity has left, and no more than that.
func TestOverdueOver(t *testing.T) {
	t.Parallel()
	for name, per := range map[string]string{
		"without parts": ``, "with parts": `, "name": "user", "per": [{"header": "x-user"}]`,
	} {
		w := burstWorld{newWorld(t, 1, `{"redis": {"cluster": "redis"}, "deny_cache": {"size": 0}, "rules": [
			{"name": "r",
			 "limits": [{"algorithm": "fixed_window", "limit": 5, "window": "1h"`+per+`}],
			 "over": {"set_headers": {"x-quota": "over"}}},
			{"name": "other", "limits": [{"algorithm": "fixed_window", "limit": 10, "window": "1h"}]}]}`)}
		w.stores.burst.begin()
		first, second := w.arriveNow("1"), w.arriveNow("1")
		heard := w.arriveNow("1")
		used, oneLeft := says(false, 0, 5e6), says(true, 1, 0)
		w.stores.burst.hear(&heard.Checks[0], &used, false, w.now.SteadyMicros)
		w.stores.burst.hear(&heard.Checks[1], &oneLeft, false, w.now.SteadyMicros)
		testenv.Same(t, name+": the first", w.end(first).Outcome.Metric(), answer.FailedAllow.Metric())
		testenv.Same(t, name+": the second", w.end(second).Outcome.Metric(), answer.Limited.Metric())
	}
}

// TestOverdueRejectedIsLentNothing: what another rule's identity has left is lent to those that go on.
func TestOverdueRejectedIsLentNothing(t *testing.T) {
	t.Parallel()
	w := burstWorld{newWorld(t, 1, `{"redis": {"cluster": "redis"}, "deny_cache": {"size": 0}, "rules": [
		{"name": "user", "key": [{"header": "x-user"}],
			"limits": [{"algorithm": "fixed_window", "limit": 5, "window": "1h"}]},
		{"name": "all", "limits": [{"algorithm": "fixed_window", "limit": 10, "window": "1h"}]}]}`)}
	w.stores.burst.begin()
	from := func(user string) *Question { return w.begin(headers{"x-user": user}) }
	ann, bob, heard := from("ann"), from("bob"), from("ann")
	used, oneLeft := says(false, 0, 5e6), says(true, 1, 0)
	w.stores.burst.hear(&heard.Checks[0], &used, false, w.now.SteadyMicros)
	w.stores.burst.hear(&heard.Checks[1], &oneLeft, false, w.now.SteadyMicros)
	testenv.Same(t, "ann", w.end(ann).Outcome.Metric(), answer.Limited.Metric())
	testenv.Same(t, "bob", w.end(bob).Outcome.Metric(), answer.FailedAllow.Metric())
}
