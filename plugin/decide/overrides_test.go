package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/twinredis"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/metric"
	"github.com/sluiceproxy/sluice/plugin/redis"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

const contracts = `{"redis": {"cluster": "redis"}, "failure": {"mode": "%s"}, "deny_cache": {"size": 0}, "rules": [
	{"name": "r", "key": [{"constant": "c"}], "overrides": true, "cost": {"header": "x-cost", "default": 1, "max": 9},
	"limits_by": {"source": {"header": "x-plan"}, "default": "free", "values": {"staff": "unlimited",
		"free": [{"algorithm": "gcra", "limit": 4, "window": "1m"}],
		"pro": [{"algorithm": "gcra", "limit": 40, "window": "1m"},
			{"algorithm": "fixed_window", "limit": {"header": "x-limit", "default": 50, "max": 99}, "window": "1h"}]}}}]}`

// TestWhatOverridesMake holds what each override makes of the check of a request that comes with a
// tier, a cost and a limit of its own.
func TestWhatOverridesMake(t *testing.T) {
	t.Parallel()
	free, pro, staff := headers{"x-cost": "3"}, headers{"x-plan": "pro", "x-cost": "2"}, headers{"x-plan": "staff"}
	type size struct{ units, room int64 }
	for _, tc := range []struct {
		value  string
		h      headers
		costs  []int64
		sizes  []size
		ignore bool
	}{
		{"", free, []int64{3}, []size{{4, 4}}, false},
		{"x2.5", free, []int64{3}, []size{{10, 10}}, false},
		{"x2", pro, []int64{2, 2}, []size{{80, 80}, {100, 100}}, false},
		{"tier:pro", free, []int64{3, 3}, []size{{40, 40}, {50, 50}}, false},
		{"tier:pro", headers{"x-limit": "7"}, []int64{1, 1}, []size{{40, 40}, {7, 7}}, false},
		{"tier:pro", pro, []int64{2, 2}, []size{{40, 40}, {50, 50}}, false},
		{"tier:free", pro, []int64{2}, []size{{4, 4}}, false},
		{"tier:staff", pro, nil, nil, false},
		{"tier:pro", staff, []int64{1, 1}, []size{{40, 40}, {50, 50}}, false},
		{"limits:r=100/7", free, []int64{3}, []size{{100, 7}}, false},
		{"limits:r=0", free, []int64{3}, []size{{0, 0}}, false},
		{
			"limits:r-1h=8",
			headers{"x-plan": "pro", "x-limit": "7"},
			[]int64{1, 1},
			[]size{{40, 40}, {8, 8}},
			false,
		},
		{"limits:r-1h=8,r-1m=9", pro, []int64{2, 2}, []size{{9, 9}, {8, 8}}, false},
		{"tier:gold", pro, []int64{2, 2}, []size{{40, 40}, {50, 50}}, true},
		{"limits:r-1h=8", free, []int64{3}, []size{{4, 4}}, true},
		{"limits:r=8", staff, nil, nil, true},
		{"limits:r-1h=8/9", pro, []int64{2, 2}, []size{{40, 40}, {50, 50}}, true},
		{"limits:r-1h=8,r-1h=8", pro, []int64{2, 2}, []size{{40, 40}, {50, 50}}, true},
		{"limits:r-1h=1000000001", pro, []int64{2, 2}, []size{{40, 40}, {50, 50}}, true},
		{"rubbish", pro, []int64{2, 2}, []size{{40, 40}, {50, 50}}, true},
	} {
		w := newWorld(t, 1, contracts, "allow")
		w.set("r|c", tc.value, 0)
		for _, when := range []string{"when Redis tells it", "when it is remembered"} {
			what := fmt.Sprintf("%q of %v, %s", tc.value, tc.h, when)
			w.calls, w.events[metric.OverrideIgnored] = nil, 0
			w.asks(tc.h)
			w.answer()
			call := w.calls[0]
			var sizes []size
			for _, l := range call.Plan.Limits() {
				sizes = append(sizes, size{l.Units, l.Room()})
			}
			testenv.SameList(t, what+": costs", call.Costs, tc.costs)
			testenv.SameList(t, what+": sizes", sizes, tc.sizes)
			testenv.Same(t, what+": that it is ignored", w.events[metric.OverrideIgnored] > 0, tc.ignore)
		}
	}
}

// TestOneRoundTripForWhatIsRemembered: two are needed for an identity whose override is new to the
// worker, or has changed, or has ended, and one for all others.
func TestOneRoundTripForWhatIsRemembered(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, contracts, "allow")
	for n, step := range []struct {
		passes int64
		set    string // "-": nothing
		life   int64
		trips  int
	}{
		{0, "-", 0, 1},
		{0, "tier:pro", 0, 2},
		{0, "-", 0, 1},
		{3600e6, "-", 0, 1},
		{0, "x2", 5e6, 2},
		{4_999_999, "-", 0, 1},
		{1, "x2", 5e6, 2}, // it ends by itself; it was set anew
		{0, "-", 0, 1},
		{0, "", 0, 2},
		{0, "-", 0, 1},
		{0, "rubbish", 0, 2},
		{0, "-", 0, 1},
	} {
		w.pass(step.passes)
		if step.set != "-" {
			w.set("r|c", step.set, step.life)
		}
		q, trips := w.asks(nil), 0
		for ; !q.concluded; trips++ {
			w.next()
		}
		w.answer()
		testenv.Same(t, fmt.Sprintf("step %d: round trips", n), trips, step.trips)
	}
}

// TestOverrideThatIsGone: whoever finds no override where the worker remembers one, forgets it.
func TestOverrideThatIsGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, contracts, "local")
	penalty := algo.Ruling{By: algo.ByPenalty, LeftMicros: 7e6}
	for n, step := range []struct {
		ruling algo.Ruling
		want   string
	}{
		{algo.Ruling{By: algo.ByBlock, LeftMicros: algo.Never}, "block"},
		{algo.Ruling{Allowed: true}, ""},
		{algo.Ruling{By: algo.ByFree, Allowed: true, LeftMicros: 7e6}, "free"},
		{penalty, "free"}, // says nothing of an override
		{algo.Ruling{Allowed: true, Ignored: true}, ""},
	} {
		a := Ask{Rule: w.rules.Rules[0], Demand: rule.Demand{Tag: []byte("r|c")}}
		w.stores.overrides.learn(&a, &redis.Reply{Ruling: step.ruling}, w.now.SteadyMicros)
		got := string(w.stores.overrides.recall(&a, w.now.SteadyMicros))
		testenv.Same(t, fmt.Sprintf("step %d: remembered", n), got, step.want)
	}
}

// TestClientThatLeft: what a tier takes of a request is read when its name is heard. Of a client that
// has left by then nothing is asked; a factor and numbers need no request.
func TestClientThatLeft(t *testing.T) {
	t.Parallel()
	for value, again := range map[string]bool{"tier:pro": false, "tier:free": true, "x2": true, "limits:r=9": true} {
		w := newWorld(t, 1, contracts, "allow")
		w.set("r|c", value, 0)
		w.endStream(w.asks(nil))
		w.answer()
		testenv.Same(t, value+": that it is asked again", len(w.calls) == 1, again)
	}
}

// TestExpiredCheckIsNotAskedAgain: no request waits for it, but what Redis said is remembered.
func TestExpiredCheckIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, contracts, "allow")
	w.set("r|c", "tier:pro", 0)
	q := w.asks(nil)
	q.Expired(0, w.now.SteadyMicros)
	w.answer()
	testenv.Same(t, "calls that ran", len(w.calls), 0)
	w.asks(nil)
	w.next()
	testenv.Same(t, "limits of the next, in its first call", len(w.calls[0].Costs), 2)
}

// TestLocalGoesByWhatIsRemembered: while Redis is away, mode local goes by what the worker
// remembers, as long as that lasts, else by the configuration.
func TestLocalGoesByWhatIsRemembered(t *testing.T) {
	t.Parallel()
	remember := func(w *world, value string, left int64) {
		a := Ask{Rule: w.rules.Rules[0], Demand: rule.Demand{Tag: []byte("r|c")}}
		w.stores.overrides.remember(&a, []byte(value), left, w.now.SteadyMicros)
	}
	for _, tc := range []struct {
		value    string
		left     int64
		admitted int // of 60 requests
		outcome  answer.Outcome
	}{
		{"", algo.Never, 4, answer.LocalLimited},
		{"x2", algo.Never, 8, answer.LocalLimited},
		{"x2", 1e6, 4, answer.LocalLimited},
		{"tier:pro", algo.Never, 40, answer.LocalLimited},
		{"tier:staff", algo.Never, 60, answer.LocalAllowed},
		{"limits:r=10", algo.Never, 10, answer.LocalLimited},
		{"limits:r=0", algo.Never, 0, answer.LocalLimited},
		{"rubbish", algo.Never, 4, answer.LocalLimited},
		{"free", algo.Never, 60, answer.LocalAllowed},
		{"free", 2e6, 60, answer.LocalAllowed},
		{"free", 1e6, 4, answer.LocalLimited},
		{"block", algo.Never, 0, answer.Blocked},
		{"block", 2e6, 0, answer.Blocked},
		{"block", 1e6, 4, answer.LocalLimited},
	} {
		w := newWorld(t, 1, contracts, "local")
		remember(w, tc.value, tc.left)
		w.pass(1e6)
		w.away = true
		admitted := 0
		var last *Question
		for range 60 {
			if last = w.arrive(nil); last.verdict.Event != Refused {
				admitted++
			}
		}
		what := fmt.Sprintf("%q for %d us", tc.value, tc.left)
		testenv.Same(t, what+": admitted", admitted, tc.admitted)
		testenv.Same(t, what+": the outcome", last.verdict.Outcome, tc.outcome)
		if tc.value == "block" && tc.left == 2e6 {
			testenv.Same(t, what+": what is left of the block", last.Checks[0].LeftMicros, 1e6)
		}
	}
}

// TestLateChargeOfAnotherTier: a charge that Redis reports after the embedded store was asked as
// another override has it is given back as what it was.
func TestLateChargeOfAnotherTier(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, contracts, "local")
	q := w.asks(headers{"x-cost": "3"})
	w.run(1) // Redis charges it as tier free
	a := Ask{Rule: w.rules.Rules[0], Demand: rule.Demand{Tag: []byte("r|c")}}
	w.stores.overrides.remember(&a, []byte("tier:pro"), algo.Never, w.now.SteadyMicros)
	q.Expired(0, w.now.SteadyMicros)
	w.worker.goOn(w.now)
	testenv.Same(t, "limits of the fallback", len(q.Checks[0].Limits.Limits), 2)
	q.refused = true
	w.answer()
	back := w.calls[len(w.calls)-1]
	testenv.Same(t, "the last call", back.Kind, twinredis.Refund)
	testenv.SameList(t, "given back", back.Costs, []int64{3})
	testenv.Same(t, "units that stay charged", w.charged["r|c"], 0)
}

// TestMemoryOfOverridesIsBounded: 10,000 identities and 1 MB, of which those unused for longest go.
func TestMemoryOfOverridesIsBounded(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		length, put, kept int
	}{
		{8, maxKnown, maxKnown},
		{8, maxKnown + 500, maxKnown},
		{1000, 5000, maxKnownBytes / 1000},
		{100, 3 * maxKnown, maxKnown},
	} {
		w := newWorld(t, 1, contracts, "allow")
		o := &w.stores.overrides
		a := Ask{Rule: w.rules.Rules[0]}
		for i := range tc.put {
			a.Tag = fmt.Appendf(nil, "r|%d", i)
			value := slices.Repeat([]byte("v"), tc.length)
			o.remember(&a, value, algo.Never, 0)
		}
		kept, sum := 0, 0
		for i := range tc.put {
			a.Tag = fmt.Appendf(nil, "r|%d", i)
			if value := o.recall(&a, 1); len(value) > 0 {
				kept, sum = kept+1, sum+len(value)
				testenv.Within(t, "an identity that is kept", i, tc.put-tc.kept, tc.put)
			}
		}
		what := fmt.Sprintf("%d of %d bytes", tc.put, tc.length)
		testenv.Same(t, what+": kept", kept, tc.kept)
		testenv.Same(t, what+": bytes", o.knownBytes, sum)
	}
}

// TestShortValueFreesLongMemory: what a long value leaves behind is not kept for a short one.
func TestShortValueFreesLongMemory(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, contracts, "allow")
	a := Ask{Rule: w.rules.Rules[0], Demand: rule.Demand{Tag: []byte("r|c")}}
	w.stores.overrides.remember(&a, make([]byte, 1000), algo.Never, 0)
	w.stores.overrides.remember(&a, []byte("x2"), algo.Never, 0)
	k := w.stores.overrides.known.Get(a.Rule.ID, a.Tag)
	testenv.Within(t, "memory", cap(k.value), 2, 16)
}

// TestOverdueCheckIsOfItsTier: a check that was kept back, and that Redis was never asked about, gets
// the tier that Redis has told of meanwhile, so that a crowd does not get past its limits. One that
// Redis was sent stays what it was sent as.
func TestOverdueCheckIsOfItsTier(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, strings.Replace(contracts, `"%s"`, `"allow", "max_pending": 1`, 1))
	sent, kept := w.asks(nil), w.asks(nil)
	a := Ask{Rule: w.rules.Rules[0], Demand: rule.Demand{Tag: []byte("r|c")}}
	w.stores.overrides.remember(&a, []byte("tier:pro"), algo.Never, w.now.SteadyMicros)
	crowd := &w.worker.crowd
	testenv.Same(t, "requests that are kept back", crowd.n, 1)
	crowd.timeoutMicros = 0
	crowd.expire(w.now)
	for _, q := range []*Question{sent, kept} {
		q.Checks[0].Status = Undecided
		w.stores.inPlaceOfRedis(q, w.now)
	}
	testenv.Same(t, "limits of the one that was kept back", len(kept.Checks[0].Limits.Limits), 2)
	testenv.Same(t, "limits of the one that was sent", len(sent.Checks[0].Limits.Limits), 1)
}

// recall is the override that the worker remembers of an identity; nil if it remembers none.
func (o *overrides) recall(a *Ask, nowMicros int64) []byte {
	if k := o.known.Get(a.Rule.ID, a.Tag); k != nil && nowMicros < k.untilMicros {
		return k.value
	}
	return nil
}
