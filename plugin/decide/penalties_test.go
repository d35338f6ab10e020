package decide

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
)

// One rule with a penalty, and another one next to it.
const (
	withPenalty = `{"redis": {"cluster": "redis"}, "deny_cache": {"size": 0}, "rules": [
		{"name": "user", "limits": [{"algorithm": "fixed_window", "limit": 9, "window": "1h"}],
			"penalty": {"after": 5, "within": "1m", "for": ["5m"]}}`
	besideAnother = withPenalty +
		`, {"name": "tenant", "limits": [{"algorithm": "fixed_window", "limit": 9, "window": "1h"}]}`
)

// Of a request that several rules are asked about, a rejection is a strike only if no
// other rule rejects: what fills the one may be what the other is giving back. What
// counts is told with the identity's next call.
func TestStrikesAreNoOthersFault(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		rules    string
		rejected []bool // by each rule
		deferred bool
		told     string // strikes, age:count, with the next call
	}{
		{name: "one rule: Redis counts", rules: withPenalty, rejected: []bool{true}},
		{name: "by this rule alone", rules: besideAnother, rejected: []bool{true, false}, deferred: true, told: "0:1"},
		{name: "by both", rules: besideAnother, rejected: []bool{true, true}, deferred: true},
		{name: "by the other", rules: besideAnother, rejected: []bool{false, true}, deferred: true},
		{name: "by none", rules: besideAnother, rejected: []bool{false, false}, deferred: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, tc.rules+`]}`)
			told, deferred := w.rejectedBy(tc.rejected...)
			testenv.Same(t, "strikes told at first", told, "")
			testenv.Same(t, "that Redis is not to count", deferred, tc.deferred)
			told, _ = w.rejectedBy(make([]bool, len(tc.rejected))...)
			testenv.Same(t, "strikes told with the next call", told, tc.told)
		})
	}
}

// A rule that rejects together with another one is known to be full once it has done so for longer
// than a charge stands that is on its way back, and has admitted nothing meanwhile: then
// it counts, once in that time. So no client escapes by keeping a second rule full.
func TestStrikesBesideAnotherRule(t *testing.T) {
	t.Parallel()
	const later = 100_000 // us; the timeout is 50 ms
	for _, tc := range []struct {
		name  string
		after []int64 // when the requests come, after the one before
		free  int     // the request that the rule has room for; 0: none
		told  string  // age:count
	}{
		{name: "at once", after: []int64{0, 0, 0, 0}},
		{name: "within the time", after: []int64{0, later - 1}},
		{name: "after the time", after: []int64{0, later}, told: "0:1"},
		{name: "several after the time", after: []int64{0, later, 0, 1}, told: "0:1"},
		{name: "each after the time", after: []int64{0, later, later, later}, told: "100000:1 100000:1 0:1"},
		{name: "room meanwhile", after: []int64{0, later / 2, later / 2, later - 1}, free: 1},
		{name: "room before", after: []int64{0, later / 2, later / 2, later}, free: 1, told: "0:1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, besideAnother+`]}`)
			var all []string
			for i, after := range tc.after {
				w.pass(after)
				told, _ := w.rejectedBy(i == 0 || i != tc.free, true)
				all = append(all, strings.Fields(told)...)
			}
			told, _ := w.rejectedBy(false, false)
			all = append(all, strings.Fields(told)...)
			testenv.Same(t, "strikes told", strings.Join(all, " "), tc.told)
		})
	}
}

// rejectedBy asks about a request, has Redis answer so for each rule, and returns the strikes that it was
// told of, and whether it was told to count none itself.
func (w *world) rejectedBy(rejected ...bool) (told string, deferred bool) {
	w.asks(nil)
	for i, rejected := range rejected {
		if strikes := w.told(algo.Ruling{Allowed: !rejected}); i == 0 {
			told, deferred = strings.CutSuffix(strikes, "-")
		}
	}
	w.answer() // what was given back
	return told, deferred
}
