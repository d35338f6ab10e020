package decide

import (
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/redis"
)

// Of a request that several rules are asked about, a rejection is a strike only if no
// other rule rejects: what fills the one may be what the other is giving back. What
// counts is told with the identity's next call.
func TestStrikesAreNobodyElsesFault(t *testing.T) {
	t.Parallel()
	const one = `{"redis": {"cluster": "redis"}, "deny_cache": {"size": 0}, "rules": [
		{"name": "user", "limits": [{"algorithm": "fixed_window", "limit": 9, "window": "1h"}],
			"penalty": {"after": 5, "within": "1m", "for": ["5m"]}}`
	const two = one + `, {"name": "tenant", "limits": [{"algorithm": "fixed_window", "limit": 9, "window": "1h"}]}`
	for _, tc := range []struct {
		name     string
		rules    string
		rejected []bool // by each rule
		deferred bool
		told     int64 // strikes, with the next call
	}{
		{name: "one rule: Redis counts", rules: one, rejected: []bool{true}},
		{name: "rejected by this rule alone", rules: two, rejected: []bool{true, false}, deferred: true, told: 1},
		{name: "by both", rules: two, rejected: []bool{true, true}, deferred: true},
		{name: "by the other", rules: two, rejected: []bool{false, true}, deferred: true},
		{name: "by none", rules: two, rejected: []bool{false, false}, deferred: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1, tc.rules+`]}`)
			w.steady = true
			q := w.ask()
			if got := w.flying[0].charge.Deferred; got != tc.deferred {
				t.Errorf("deferred: %v, want %v", got, tc.deferred)
			}
			for i, rejected := range tc.rejected {
				if !rejected {
					w.flying[i].charged = 1
				}
				q.Decided(i, ruling(rejected), w.now.SteadyMicros)
			}
			w.stores.Conclude(q, w.now)
			w.flying = nil
			w.ask()
			told := int64(0)
			for _, s := range w.flying[0].charge.Strikes {
				told += s.Count
			}
			if told != tc.told {
				t.Errorf("%d strikes are told, want %d", told, tc.told)
			}
		})
	}
}

// ruling is a reply of Redis' about one limit.
func ruling(rejected bool) *redis.Reply {
	r := &redis.Reply{Ruling: algo.Ruling{AtMicros: 1, Allowed: !rejected}, Decisions: []algo.Decision{{Allowed: !rejected}}}
	if rejected {
		r.Decisions[0].RetryAfterMicros = 1
	}
	return r
}
