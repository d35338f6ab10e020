package decide

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/deny"
)

const settled = `{"redis": {"cluster": "redis"},
	"rules": [{"name": "r", "mode": "%mode", "cost": {"header": "x-cost", "default": 3},
	"limits": [{"algorithm": "fixed_window", "limit": 90, "window": "1h"},
		{"algorithm": "gcra", "limit": 90, "window": "1h", "cost": 2},
		{"algorithm": "sliding_window_log", "limit": 90, "window": "1h", "cost": 0}],
	"settle": %settle}]}`

const byStatus, byCost = `{"status": ["4xx"]}`, `{"cost": {"header": "x-cost", "max": 50}}`

// responses are to a request that has charged 3, 2 and 0, and what each gives back, limit by limit.
var responses = []struct {
	name, settle string
	response     *response // nil: it never came
	want         []int64   // nil: nothing is settled
}{
	{"kept", byStatus, &response{status: 404}, nil},
	{"given back", byStatus, &response{status: 200}, []int64{3, 2, 0}},
	{"no response", byStatus, nil, nil},
	{"no response, to release", `{"status": ["4xx"], "missing": "release"}`, nil, nil},
	{"less", byCost, &response{status: 200, cost: "1"}, []int64{2, 0, 0}},
	{"more", byCost, &response{status: 200, cost: "9"}, []int64{-6, 0, 0}},
	{"far more", byCost, &response{status: 200, cost: "1000"}, []int64{-47, 0, 0}},
	{"as much", byCost, &response{status: 200, cost: "3"}, nil},
	{"no value", byCost, &response{status: 200}, nil},
	{
		"no value, to release", `{"cost": {"header": "x-cost", "max": 50}, "missing": "release"}`,
		&response{},
		[]int64{3, 0, 0},
	},
	{
		"no value, at a cost", `{"cost": {"header": "x-cost", "max": 50}, "missing": {"cost": 70}}`,
		&response{},
		[]int64{-67, 0, 0},
	},
	{"no response, at a cost", `{"cost": {"header": "x-cost", "max": 50}, "missing": {"cost": 70}}`, nil, nil},
	{
		"a status and a cost", `{"status": ["4xx"], "cost": {"header": "x-cost", "max": 50}}`,
		&response{status: 404, cost: "5"},
		[]int64{-2, 0, 0},
	},
	{
		"a cost of what is given back", `{"status": ["4xx"], "cost": {"header": "x-cost", "max": 50}}`,
		&response{status: 200, cost: "5"},
		[]int64{3, 2, 0},
	},
}

// What is settled, limit by limit: costs are 3, 2 of its own, and 0.
func TestFinish(t *testing.T) {
	t.Parallel()
	for _, tc := range responses {
		for _, mode := range []string{"enforce", "shadow"} {
			t.Run(tc.name+", "+mode, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, 1, strings.NewReplacer("%mode", mode, "%settle", tc.settle).Replace(settled))
				q := w.asks(nil)
				w.answer()
				if !q.Unfinished() {
					t.Fatal("nothing is left to be done")
				}
				if tc.response != nil {
					w.worker.Responds(q, tc.response)
				}
				w.stores.Finish(q, tc.response, w.now)
				w.worker.Ends(q, tc.response, w.now) // once is enough
				at := w.now.UnixMicros
				ticks(20_000, w)
				told := w.calls[1:]
				if tc.want == nil {
					if len(told) > 0 {
						t.Errorf("settled %v, want nothing", told)
					}
					return
				}
				if len(told) != 1 {
					t.Fatalf("settled %+v, want %v", told, tc.want)
				}
				testenv.SameList(t, "what is given back", told[0].Costs, tc.want)
				testenv.Same(t, "the charge's time", told[0].ChargedMicros, at)
			})
		}
	}
}

// A rule that does not settle has nothing left to do.
func TestNothingToFinish(t *testing.T) {
	t.Parallel()
	if newWorld(t, 1, twoRules, "allow").asks(nil).Unfinished() {
		t.Error("something is left to be done")
	}
}

// What was rejected while another request's reservation was held is forgotten when
// that is given back, and is not remembered for long.
func TestSettlementIsRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, `{"redis": {"cluster": "redis"},
		"rules": [{"name": "r", "limits": [{"algorithm": "fixed_window", "limit": 1, "window": "1h"}],
		"settle": {"status": ["401"]}}]}`)
	first := w.asks(nil)
	w.asks(nil)
	w.answer()
	if w.stores.memory.ttls[0] != deny.SharedTTLMicros {
		t.Errorf("a rejection is remembered for %d us, want %d", w.stores.memory.ttls[0], deny.SharedTTLMicros)
	}
	testenv.Same(t, "the outcome of the third", w.arrive(nil).verdict.Outcome, answer.Limited)
	w.worker.Responds(first, &response{status: 200})
	w.worker.Ends(first, &response{status: 200}, w.now)
	w.asks(nil) // the rejection is forgotten
}

// A reply that comes after its check had failed is given back at once, though the
// request went on.
func TestLateChargeOfARuleThatSettles(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"allow", "deny", "local"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, strings.Replace(`{"redis": {"cluster": "redis"}, "failure": {"mode": "%s"},
				"rules": [{"name": "r", "mode": "shadow",
				"limits": [{"algorithm": "fixed_window", "limit": 9, "window": "1h"}],
					"settle": {"status": ["401"]}}]}`, "%s", mode, 1))
			q := w.asks(nil)
			q.Expired(0, w.now.SteadyMicros)
			w.worker.goOn(w.now)
			w.answer()
			testenv.Same(t, "calls", len(w.calls), 2)
			testenv.Same(t, "units that stay charged", w.charged["r|"], 0)
		})
	}
}
