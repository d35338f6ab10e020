package decide

import (
	"slices"
	"testing"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/plugin/answer"
)

// kept is a request that is kept back in a crowd, and what becomes of it.
type kept struct {
	headers headers
	want    answer.Outcome
	retry   int64 // of its first limit that rejects
}

// heardOf is what Redis says to another request of the crowd.
type heardOf struct {
	headers   headers
	decisions []algo.Decision
}

// compareKept has Redis say things, one after the other, to a crowd of the rule's requests.
func compareKept(t *testing.T, name, rule string, heard []heardOf, all []kept) {
	t.Helper()
	w := newCrowd(t, `{"redis": {"cluster": "redis"}, "deny_cache": {"size": 0}, "rules": [`+rule+`]}`)
	var asked []*Question
	for i := range all {
		asked = append(asked, w.begin(all[i].headers))
	}
	for _, h := range heard {
		r := replied(h.decisions...)
		w.rules.LimitSets[0].Plan.Resolve(r.Decisions)
		w.hears(h.headers, r)
	}
	for i, q := range asked {
		testenv.Same(t, name, w.overdue(q).Outcome.Metric(), all[i].want.Metric())
		rejects := slices.IndexFunc(q.Checks[0].Decisions, func(d algo.Decision) bool { return !d.Allowed })
		if all[i].want == answer.Limited {
			testenv.Same(t, name+": retry", q.Checks[0].Decisions[rejects].RetryAfterMicros, all[i].retry)
		}
	}
}

// TestOverdueSizes: limits that come with the request, and classes, have units in common. What one of
// them has seen in use, the others have in use, too.
func TestOverdueSizes(t *testing.T) {
	t.Parallel()
	const limited, allow = answer.Limited, answer.FailedAllow
	window := `{"name": "r", "limits": [{"algorithm": "fixed_window", "window": "1h",
		"limit": {"header": "x-limit", "default": 10, "max": 500}}]}`
	bucket := `{"name": "r", "limits": [{"algorithm": "gcra", "window": "1h",
		"limit": {"header": "x-limit", "default": 10, "max": 500}}]}`
	class := `{"name": "r", "cost": {"header": "x-cost", "default": 1, "max": 100},
		"limits": [{"algorithm": "fixed_window", "window": "1h", "limit": 100, "ceiling":
		{"source": {"header": "x-class"}, "values": {"high": 100, "low": 50}, "default": "low"}}]}`
	none := decided(0, 4e6)
	size := func(n string) headers { return headers{"x-limit": n} }
	of := func(class string) headers { return headers{"x-class": class} }
	heard := func(h headers, d algo.Decision) heardOf { return heardOf{h, []algo.Decision{d}} }
	for _, tc := range []struct {
		name, rule string
		heard      []heardOf
		kept       []kept
	}{
		{
			"a smaller limit has less", window,
			[]heardOf{heard(size("20"), decided(7, 0))},
			[]kept{{size("14"), allow, 0}, {size("14"), limited, 5e6}, {size("13"), limited, 5e6}, {size("20"), allow, 0}},
		},
		{
			"a larger one has more, and no more than that", window,
			[]heardOf{heard(size("5"), decided(3, 0))},
			[]kept{{size("3"), allow, 0}, {size("3"), limited, 5e6}, {size("2"), limited, 5e6}, {size("4"), allow, 0}},
		},
		{
			"a smaller one does not see all that is used", window,
			[]heardOf{heard(size("20"), decided(0, 0)), heard(size("10"), none)},
			[]kept{{size("20"), limited, 5e6}, {size("10"), limited, 4e6}, {size("21"), allow, 0}},
		},
		{
			"units that have come back", window,
			[]heardOf{heard(size("20"), decided(0, 0)), heard(size("10"), decided(9, 0))},
			[]kept{{size("2"), allow, 0}, {size("2"), limited, 5e6}},
		},
		{
			"a bucket of another size drains at another rate", bucket,
			[]heardOf{heard(size("20"), none)},
			[]kept{{size("10"), limited, 3600e6}, {size("20"), limited, 4e6}},
		},
		{
			"a class below", class,
			[]heardOf{heard(of("high"), decided(51, 0))},
			[]kept{{of("low"), allow, 0}, {of("low"), limited, 5e6}, {of("high"), allow, 0}},
		},
		{
			"a class above, after more was seen", class,
			[]heardOf{heard(of("high"), decided(0, 0)), heard(of("low"), none)},
			[]kept{{of("high"), limited, 5e6}},
		},
		{
			"a cost that a class never has room for", class,
			[]heardOf{heard(of("high"), decided(60, 0))},
			[]kept{{headers{"x-class": "low", "x-cost": "51"}, limited, algo.Never}},
		},
	} {
		compareKept(t, tc.name, tc.rule, tc.heard, tc.kept)
	}
}

// TestOverdueGuarantee: a crowd takes from a pool what Redis has said last that it has, also where
// the guarantee has admitted that request.
func TestOverdueGuarantee(t *testing.T) {
	t.Parallel()
	const limited, allow = answer.Limited, answer.FailedAllow
	const rule = `{"name": "r", "limits": [
		{"name": "pool", "algorithm": "gcra", "limit": 60, "window": "1m", "burst": 20},
		{"name": "each", "algorithm": "gcra", "limit": 6, "window": "1m", "burst": 5, "per": [{"header": "x-user"}],
			"guarantee": true}]}`
	const second = 1e6 // in which the pool restores a unit
	pool := func(remaining, used int64) algo.Decision {
		d := algo.Decision{Allowed: remaining > 0, Remaining: remaining, ResetAfterMicros: used * second}
		if !d.Allowed {
			d.RetryAfterMicros = second
		}
		return d
	}
	ann, bob := headers{"x-user": "ann"}, headers{"x-user": "bob"}
	full := algo.Decision{ResetAfterMicros: 50 * second, RetryAfterMicros: 10 * second}
	for _, tc := range []struct {
		name  string
		heard []heardOf
		kept  []kept
	}{
		{
			"her guarantee is used up, the pool has two",
			[]heardOf{{ann, []algo.Decision{pool(2, 18), decided(0, 0)}}},
			[]kept{{ann, allow, 0}, {bob, allow, 0}, {ann, limited, 18 * second}, {bob, limited, 18 * second}},
		},
		{
			"the pool is full, her guarantee is not",
			[]heardOf{{ann, []algo.Decision{pool(0, 25), decided(2, 0)}}},
			[]kept{{ann, allow, 0}, {ann, allow, 0}, {ann, limited, 25 * second}, {bob, limited, 25 * second}},
		},
		{
			"the debt has room for one",
			[]heardOf{{ann, []algo.Decision{pool(0, 39), decided(4, 0)}}},
			[]kept{{ann, allow, 0}, {ann, limited, 39 * second}},
		},
		{
			"both refuse, and whose wait the pool tells is not known",
			[]heardOf{{ann, []algo.Decision{pool(0, 25), full}}},
			[]kept{{ann, limited, 25 * second}, {bob, limited, 25 * second}},
		},
	} {
		compareKept(t, tc.name, rule, tc.heard, tc.kept)
	}
}
