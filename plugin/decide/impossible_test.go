package decide

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/answer"
)

// TestImpossible: a step that cannot be fails the tests.
func TestImpossible(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, twoRules, "allow")
	q := w.asks(nil)
	defer func() {
		if recover() == nil {
			t.Error("it went on")
		}
	}()
	w.worker.step(q, TurnComes, nil, w.now)
}

// warnings takes the lines that a Worker logs.
type warnings struct {
	*world
	lines []string
}

func (h *warnings) Warn(line string) { h.lines = append(h.lines, line) }

const fewRequests = `{"redis": {"cluster": "redis"}, "failure": {"mode": "%s", "max_pending": %d}, "rules": [
	{"name": "r", "limits": [{"algorithm": "fixed_window", "limit": 10, "window": "1h"}]}]}`

// TestImpossibleInEnvoy: there a request that waits is let go by the failure mode, wherever it
// waits, and one line says so.
func TestImpossibleInEnvoy(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		mode    string
		outcome answer.Outcome
		state   State
	}{
		{"allow", answer.FailedAllow, Passed},
		{"deny", answer.FailedDeny, Answered},
		{"local", answer.LocalAllowed, Passed},
	} {
		t.Run(tc.mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, fewRequests, tc.mode, 1)
			q := w.asks(nil)
			host := &warnings{world: w}
			w.worker.host = host
			other := w.asks(nil)
			testenv.Same(t, "requests that are kept back", w.worker.crowd.n, 1)
			for _, q := range []*Question{q, other} {
				w.worker.letGo(q, TurnComes, w.now)
				if q.State() != tc.state || q.verdict.Outcome != tc.outcome {
					t.Errorf("%s, %s", q.State(), q.verdict.Outcome.Metric())
				}
			}
			testenv.Same(t, "requests that are kept back in the end", w.worker.crowd.n, 0)
			w.answer() // what comes late changes nothing
			if len(host.lines) != 1 || !strings.Contains(host.lines[0], "asking when this happened: turn comes") {
				t.Errorf("logged %q", host.lines)
			}
		})
	}
}
