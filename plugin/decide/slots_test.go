package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/twinredis"
)

// slotsOf is how many slots Redis holds of the rules of a name.
func (w *world) slotsOf(rule string) (sum int64) {
	w.server.States(w.now.UnixMicros, func(key string, state algo.State) {
		if strings.HasPrefix(key, "rl:{"+rule+"|") && strings.Contains(key, ":concurrency") {
			for e := range slices.Chunk(state, 3) {
				if e[2] > w.now.UnixMicros {
					sum += e[1]
				}
			}
		}
	})
	return sum
}

const oneFlight = `{"redis": {"cluster": "redis"}, "failure": {"mode": "%s"}, "rules": [
	{"name": "flight", "key": [{"header": "x-user"}], "cost": {"header": "x-cost", "default": 1, "max": 9},
		"limits": [{"algorithm": "fixed_window", "limit": 1000, "window": "1h"},
			{"algorithm": "concurrency", "limit": 2, "ttl": "5s"}]}]}`

// fly brings a request of user u, which Redis has not answered yet.
func (w *world) fly(cost int) *Question {
	return w.arrive(headers{"x-user": "u", "x-cost": fmt.Sprint(cost)})
}

// wantHeld wants so many slots to be held, once Redis has answered all that it was sent.
func (w *world) wantHeld(want int64) {
	w.t.Helper()
	w.answer()
	var held int64
	for _, r := range w.streams {
		held += r.question.Checks[0].charged.receipt.Slot.Slots
	}
	testenv.Same(w.t, "slots that Redis knows of", w.slotsOf("flight"), want)
	testenv.Same(w.t, "slots that requests hold", held, want)
}

// TestSlotsOfRequests walks through what may become of the slots of single requests.
func TestSlotsOfRequests(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, oneFlight, "allow")
	a := w.fly(1)
	w.wantHeld(1)
	b := w.fly(1)
	w.wantHeld(2)
	for range 3 { // a refusal is not remembered: Redis is asked each time
		refused := w.fly(1)
		if refused.State() != Asking {
			t.Fatalf("a request was decided without Redis: %s", refused.State())
		}
		w.answer()
		if refused.State() != Answered || refused.verdict.Outcome.Metric() != "limited" {
			t.Errorf("a third request is %s, %s", refused.State(), refused.verdict.Outcome.Metric())
		}
		w.endStream(refused)
	}
	w.wantHeld(2)
	w.endStream(a)
	w.wantHeld(1)
	free := w.fly(0)
	w.wantHeld(1) // a cost of 0 takes none
	w.endStream(free)
	w.endStream(b)
	w.wantHeld(0)

	gone := w.fly(1)
	w.endStream(gone) // its client left before the answer
	w.wantHeld(0)

	late := w.fly(1)
	late.Expired(0, w.now.SteadyMicros)
	w.worker.goOn(w.now)
	if late.State() != Passed {
		t.Fatalf("undecided, and %s", late.State())
	}
	before := w.charged["flight|u"]
	w.wantHeld(0) // it goes on without
	testenv.Same(t, "units that were charged late and not given back", w.charged["flight|u"]-before, 0)
	w.endStream(late)
}

// TestSlotsAreRenewed as long as their request lasts, in one call, and after Redis has
// lost them.
func TestSlotsAreRenewed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, oneFlight, "deny")
	a, b := w.fly(1), w.fly(1)
	w.answer()
	ticks(16e6, w)
	w.wantHeld(2)
	w.server.Restart()
	w.lose()
	ticks(1e6, w)
	w.wantHeld(2)
	w.endStream(a)
	ticks(16e6, w)
	w.wantHeld(1)
	w.endStream(b)
	w.wantHeld(0)
	ticks(61e6, w) // the connection rests
	if next := w.worker.NextMicros(w.now.SteadyMicros); next != 0 {
		t.Errorf("the next tick is in %d us, though no slot is held", next)
	}
}

// TestSlotBelongsToItsStore: what the embedded store gave is given back to it, and what
// Redis gave to Redis.
func TestSlotBelongsToItsStore(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, oneFlight, "local")
	inRedis := w.fly(1)
	w.answer()
	w.away = true
	w.lose()
	one, two, three := w.fly(1), w.fly(1), w.fly(1)
	testenv.Same(t, "without Redis, the first request", one.State(), Passed)
	testenv.Same(t, "without Redis, the second request", two.State(), Passed)
	testenv.Same(t, "without Redis, the third request", three.State(), Answered)
	w.endStream(one)
	if four := w.fly(1); four.State() != Passed {
		t.Errorf("the embedded store was given nothing back: %s", four.State())
	}
	w.endStream(inRedis)
	w.away = false
	ticks(20e6, w)
	testenv.Same(t, "slots that Redis knows of", w.slotsOf("flight"), 0)
}

// TestSlotsOfLevels: what a settlement gives back of all limits are no slots. These go back when the request
// ends, of each of its limits.
func TestSlotsOfLevels(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, `{"redis": {"cluster": "redis"}, "rules": [{"name": "r", "limits": [
		{"algorithm": "fixed_window", "limit": 9, "window": "1h"}, {"algorithm": "concurrency", "limit": 9},
		{"name": "user", "algorithm": "concurrency", "limit": 9, "per": [{"header": "x-user"}]}],
		"settle": {"status": ["4xx"]}}]}`)
	q := w.asks(headers{"x-user": "a"})
	w.answer()
	testenv.Same(t, "slots of a request", w.slotsOf("r"), 2)
	w.worker.Responds(q, &response{status: 200})
	w.worker.Ends(q, &response{status: 200}, w.now)
	ticks(20_000, w)
	testenv.Same(t, "slots of one that has ended", w.slotsOf("r"), 0)
	for _, call := range w.calls {
		if call.Kind == twinredis.Refund {
			testenv.SameList(t, "what the settlement gives back", call.Costs, []int64{1, 0, 0})
		}
	}
}
