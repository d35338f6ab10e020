package decide

import (
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/answer"
)

const overdueParts = `{"name": "r", "key": [{"header": "x-org"}], "cost": {"header": "x-cost", "default": 1, "max": 5},
	"limits": [
	{"algorithm": "fixed_window", "limit": 10, "window": "1h", "name": "all"},
	{"algorithm": "fixed_window", "limit": 5, "window": "1h", "name": "user", "per": [{"header": "x-user"}]}]}`

// TestOverdueParts: what Redis has said to ann in a crowd, and to no other user, says what the failure mode
// may let go: of ann what her part and the organisation's hold, of others what the organisation's does.
func TestOverdueParts(t *testing.T) {
	t.Parallel()
	none := decided(0, 5e6)
	asks := func(user, cost string, want answer.Outcome) kept {
		return kept{headers{"x-org": "o", "x-user": user, "x-cost": cost}, want, 5e6}
	}
	const limited, allow = answer.Limited, answer.FailedAllow
	for _, tc := range []struct {
		name      string
		all, anns algo.Decision // of the organisation, and of ann's part
		asks      []kept        // of the same crowd
	}{
		{"ann has used hers up", decided(3, 0), decided(0, 0), []kept{asks("ann", "1", limited), asks("bob", "1", allow)}},
		{"ann is rejected", decided(6, 0), none, []kept{asks("ann", "1", limited), asks("bob", "5", allow)}},
		{"the organisation is rejected", none, decided(4, 0), []kept{asks("ann", "1", limited), asks("bob", "1", limited)}},
		{
			"more than the organisation has", decided(3, 0), decided(4, 0),
			[]kept{asks("bob", "4", limited), asks("bob", "3", allow)},
		},
		{
			"what is lent to one is lent", decided(3, 0), decided(4, 0),
			[]kept{asks("bob", "2", allow), asks("ann", "2", limited), asks("cy", "1", allow), asks("cy", "1", limited)},
		},
		{
			"lent to her part", decided(9, 0), decided(2, 0),
			[]kept{asks("ann", "2", allow), asks("ann", "1", limited), asks("bob", "1", allow)},
		},
	} {
		heard := heardOf{headers{"x-org": "o", "x-user": "ann", "x-cost": "1"}, []algo.Decision{tc.all, tc.anns}}
		compareKept(t, tc.name, overdueParts, []heardOf{heard}, tc.asks)
	}
}

// TestOverdueOver: a rule with "over" lets a request go on, so the failure mode lends it what another
// rule's identity has left, and no more than that.
func TestOverdueOver(t *testing.T) {
	t.Parallel()
	for name, per := range map[string]string{
		"without parts": ``, "with parts": `, "name": "user", "per": [{"header": "x-user"}]`,
	} {
		w := newCrowd(t, `{"redis": {"cluster": "redis"}, "deny_cache": {"size": 0}, "rules": [
			{"name": "r",
			 "limits": [{"algorithm": "fixed_window", "limit": 5, "window": "1h"`+per+`}],
			 "over": {"set_headers": {"x-quota": "over"}}},
			{"name": "other", "limits": [{"algorithm": "fixed_window", "limit": 10, "window": "1h"}]}]}`)
		u := headers{"x-user": "u"}
		first, second := w.begin(u), w.begin(u)
		w.hears(u, replied(decided(0, 5e6)), replied(decided(1, 0)))
		testenv.Same(t, name+": the first", w.overdue(first).Outcome.Metric(), answer.FailedAllow.Metric())
		testenv.Same(t, name+": the second", w.overdue(second).Outcome.Metric(), answer.Limited.Metric())
	}
}

// TestOverdueRejectedIsLentNothing: what another rule's identity has left is lent to those that go on.
func TestOverdueRejectedIsLentNothing(t *testing.T) {
	t.Parallel()
	w := newCrowd(t, `{"redis": {"cluster": "redis"}, "deny_cache": {"size": 0}, "rules": [
		{"name": "user", "key": [{"header": "x-user"}],
			"limits": [{"algorithm": "fixed_window", "limit": 5, "window": "1h"}]},
		{"name": "all", "limits": [{"algorithm": "fixed_window", "limit": 10, "window": "1h"}]}]}`)
	ann, bob := w.begin(headers{"x-user": "ann"}), w.begin(headers{"x-user": "bob"})
	w.hears(headers{"x-user": "ann"}, replied(decided(0, 5e6)), replied(decided(1, 0)))
	testenv.Same(t, "ann", w.overdue(ann).Outcome.Metric(), answer.Limited.Metric())
	testenv.Same(t, "bob", w.overdue(bob).Outcome.Metric(), answer.FailedAllow.Metric())
}
