package decide

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// overRules have each rule's match at a header of its name.
const overRules = `{"redis": {"cluster": "redis"}, "rules": [
	{"name": "soft", "match": {"headers": {"x-soft": {"present": true}}}, "over": {"set_headers": {"x-over": "soft"}},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1h"}]},
	{"name": "paid", "match": {"headers": {"x-paid": {"present": true}}},
		"over": {"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 2, "window": "10s"}]},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "30s"}]},
	{"name": "nil", "match": {"headers": {"x-nil": {"present": true}}},
		"over": {"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "20s"}]},
		"limits": [{"algorithm": "fixed_window", "limit": 0, "window": "1h"}]},
	{"name": "hard", "match": {"headers": {"x-hard": {"present": true}}},
		"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "5s"}]}
]}`

// TestLateReplyOfARuleThatIsOver: what it turns out to have charged is given back, as a rule that
// is over charges nothing.
func TestLateReplyOfARuleThatIsOver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, overRules)
	for range 2 {
		w.arrive(headers{"x-soft": "1"})
		w.answer()
	}
	q := w.asks(headers{"x-soft": "1", "x-hard": "1"})
	q.Expired(0, w.now.SteadyMicros)
	q.Expired(1, w.now.SteadyMicros)
	w.worker.goOn(w.now)
	testenv.Same(t, "outcome", w.worker.display.text(q.verdict), "failed:allow")
	w.server.Restart() // Redis has lost its data
	clear(w.charged)
	w.calls = nil
	w.answer()
	testenv.Same(t, "that it was charged", w.calls[0].Allowed, true)
	testenv.Same(t, "units that stay charged", w.charged["soft|"], 0)
}

// TestOverKeptBack: whoever is kept back past the bound and is remembered as over goes on with the
// headers. Where limits may pay, the last replies count for both lists.
func TestOverKeptBack(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		header   string
		before   int      // requests that Redis has answered
		outcomes []string // of some that came before all others
	}{
		{"x-soft", 2, []string{"over:soft"}},
		{"x-nil", 2, []string{"limited:nil"}},                                   // the one credit is used
		{"x-paid", 1, []string{"failed:allow", "failed:allow", "limited:paid"}}, // the credits may all be there
		{"x-paid", 2, []string{"failed:allow", "limited:paid"}},                 // one was charged, and two were lent
	} {
		w := newCrowd(t, overRules)
		for range tc.before {
			w.arrive(headers{tc.header: "1"})
			w.answer()
		}
		for _, outcome := range tc.outcomes {
			q := w.begin(headers{tc.header: "1"})
			testenv.Same(t, tc.header, w.worker.display.text(w.overdue(q)), outcome)
			testenv.Same(t, tc.header+": the commands", len(w.flying), 0)
		}
	}
}
