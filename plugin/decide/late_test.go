package decide

import (
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/answer"
)

const twoRules = `{"redis": {"cluster": "redis"}, "failure": {"mode": "%s"}, "rules": [
	{"name": "a", "limits": [{"algorithm": "leaky_bucket", "limit": 1, "window": "10s", "burst": 5,
		"overflow": "queue"}]},
	{"name": "b", "limits": [{"algorithm": "fixed_window", "limit": 9, "window": "1h"}]}]}`

// An answer that comes after the timeout, but before the verdict, counts.
func TestAnswerBeforeTheVerdict(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, twoRules, "deny")
	q := w.asks(nil)
	q.Expired(0, w.now.SteadyMicros)
	if w.next(); q.concluded {
		t.Fatal("concluded while the other check waits")
	}
	if w.next(); q.verdict.Outcome != answer.Allowed {
		t.Errorf("outcome %s, want allowed", q.verdict.Outcome.Metric())
	}
}

// What Redis charges for a check that had expired is given back with the rest when
// the client leaves the queue.
func TestLateChargeOfOneWhoLeaves(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"allow", "local"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, twoRules, mode)
			first := w.asks(nil)
			w.answer()
			testenv.Same(t, "the first request", first.State(), Passed)
			q := w.asks(nil)
			q.Expired(1, w.now.SteadyMicros)
			if w.next(); q.verdict.Event != Queued {
				t.Fatalf("event %s, want queued", q.verdict.Event)
			}
			w.next()
			w.endStream(q)
			w.answer()
			testenv.Same(t, "what the first rule has charged", w.charged["a|"], 1)
			testenv.Same(t, "what the second rule has charged", w.charged["b|"], 1)
		})
	}
}

// A lost check fails alone: the other one still decides.
func TestFailureOfOneCheck(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, twoRules, "allow")
	q := w.asks(nil)
	w.flying, w.replies = w.flying[1:], append(w.replies, "-ERR no\r\n"...)
	if w.hear(); q.concluded {
		t.Fatal("concluded while the other check waits")
	}
	if w.next(); q.verdict.Outcome != answer.FailedAllow {
		t.Errorf("outcome %s, want failed_allow", q.verdict.Outcome.Metric())
	}
}
