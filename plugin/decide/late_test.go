package decide

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

const twoRules = `{"redis": {"cluster": "redis"}, "failure": {"mode": "%s"}, "rules": [
	{"name": "a", "limits": [{"algorithm": "fixed_window", "limit": 9, "window": "1h"}]},
	{"name": "b", "limits": [{"algorithm": "leaky_bucket", "limit": 1, "window": "10s", "burst": 5,
		"overflow": "queue"}]}]}`

// asked is a request of which both checks wait for Redis.
func asked(t *testing.T, mode string) (*world, *Question) {
	t.Helper()
	w := newWorld(t, 1, strings.Replace(twoRules, "%s", mode, 1))
	w.steady = true
	return w, w.ask()
}

// arriving is a request about which no store was asked yet.
func (w *world) arriving() *Question { return w.begin(headers{}) }

// ask is a request that waits for Redis.
func (w *world) ask() *Question {
	w.t.Helper()
	q := w.arriving()
	w.send(q)
	if q.State() != Asking {
		w.t.Fatal("decided without Redis")
	}
	return q
}

// conclude lets a request go on that waits for nothing any more, and returns its verdict.
func (w *world) conclude(q *Question) Verdict {
	w.t.Helper()
	w.worker.goOn(w.now)
	if !q.concluded {
		w.t.Fatal("it cannot be concluded")
	}
	return q.verdict
}

// decided lets Redis run and answer call i of those that are under way.
func (w *world) decided(i int) {
	c := w.flying[i]
	w.run(c)
	c.waiter.Decided(c.index, c.reply, w.now.SteadyMicros)
}

// An answer that comes after the timeout, but before the verdict, counts.
func TestAnswerBeforeTheVerdict(t *testing.T) {
	t.Parallel()
	w, q := asked(t, "deny")
	q.Expired(0, w.now.SteadyMicros)
	w.decided(0)
	if w.worker.goOn(w.now); q.concluded {
		t.Fatal("concluded while the other check waits")
	}
	w.decided(1)
	if v := w.conclude(q); v.Outcome != answer.Allowed {
		t.Errorf("outcome %s, want allowed", v.Outcome.Metric())
	}
}

// What Redis charges for a check that had expired is given back with the rest when
// the client leaves the queue.
func TestLateChargeOfOneWhoLeaves(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"allow", "local"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w, first := asked(t, mode)
			w.decided(0)
			w.decided(1)
			w.conclude(first)
			w.flying = nil
			q := w.ask()
			q.Expired(0, w.now.SteadyMicros)
			w.decided(1)
			if v := w.conclude(q); v.Event != Queued {
				t.Fatalf("event %s, want queued", v.Event)
			}
			w.decided(0)
			w.endStream(q)
			for _, c := range w.flying {
				if c.given != c.charged {
					t.Errorf("call %d charged %d and was given back %d", c.charge.Nonce, c.charged, c.given)
				}
			}
		})
	}
}

// A lost check fails alone: the other one still decides.
func TestFailureOfOneCheck(t *testing.T) {
	t.Parallel()
	w, q := asked(t, "allow")
	q.Failed(0, redis.ErrorReply, w.now.SteadyMicros)
	if w.worker.goOn(w.now); q.concluded {
		t.Fatal("concluded while the other check waits")
	}
	w.decided(1)
	if v := w.conclude(q); v.Outcome != answer.FailedAllow {
		t.Errorf("outcome %s, want failed_allow", v.Outcome.Metric())
	}
}
