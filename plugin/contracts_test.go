package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
	"github.com/sluiceproxy/sluice/internal/wasmhost"
)

// Contracts: tiers that overrides name, which a worker may not know when the request comes.

// contractClaims are the metadata of a request whose contracts evaluate expressions.
func contractClaims(w *worker) {
	w.attributes = map[string]any{"metadata": map[string]any{"filter_metadata": map[string]any{
		"jwt": map[string]any{"limit": 7.0, "cost": 3.0, "team": "red", "class": "bulk"},
	}}}
}

// contract is a rule whose free tier is a limit of 500, and whose pro tier is another.
func contract(fields, pro string) string {
	return `{"name": "a", "overrides": true, "key": [{"header": "x-client"}], ` + fields + ` "limits_by": {
		"source": {"header": "x-plan"}, "default": "free", "values": {
		"free": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 500, "window": "1h"}],
		"pro": [{"algorithm": "fixed_window", "anchor": "first_request", "window": "1h", ` + pro + `}]}}}`
}

// TestTierHeardOfLate: what a tier reads of the request by an expression is the request's own, though its name came
// in Redis' reply, with the first request as with those that a worker knows it for.
func TestTierHeardOfLate(t *testing.T) {
	t.Parallel()
	const claim = `"default": 1, "max": 1000}`
	for _, tc := range []struct {
		name, fields, pro string
		limit, remaining  int // after one request
	}{
		{"a limit by metadata", "", `"limit": {"metadata": ["jwt", "limit"], ` + claim, 7, 6},
		{"a cost by expression", "", `"limit": 100, "cost": {"expr": "2 + 3", ` + claim, 100, 95},
		{
			"the rule's cost by expression", `"cost": {"expr": "metadata.filter_metadata['jwt']['cost']", ` + claim + `,`,
			`"limit": 100`, 100, 97,
		},
		{
			"a class by expression", "", `"limit": 100, "ceiling": {"default": "normal",
				"source": {"expr": "metadata.filter_metadata['jwt']['class']"}, "values": {"normal": 80, "bulk": 50}}`, 50, 49,
		},
		{
			"per by expression", "", `"limit": 9, "name": "each",
				"per": [{"expr": "metadata.filter_metadata['jwt']['team']"}]`, 9, 8,
		},
		{"per by metadata", "", `"limit": 9, "name": "each", "per": [{"metadata": ["jwt", "team"]}]`, 9, 8},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				contractClaims(w)
				w.properties = wasmhost.Properties{"metadata\x00filter_metadata\x00jwt\x00team": []byte("red")}
				r := w.startRedis()
				i := w.load(withRedis(contract(tc.fields, tc.pro)))
				used := tc.limit - tc.remaining
				for n := range 2 {
					r.override(fmt.Sprintf("rl:{a|%d}:override", n), "tier:pro", 0)
					for again := range 2 {
						x := i.get("/", client(fmt.Sprint(n))...)
						r.settle()
						got := x.end()
						what := fmt.Sprintf("client %d, request %d: ", n, again+1)
						testenv.Same(t, what+"the limit", got.Limit, tc.limit)
						testenv.Same(t, what+"the rest", got.Remaining, tc.remaining-again*used)
					}
				}
			})
		})
	}
}

// TestCrowdOfATierHeardOfLate: many requests that come at once get no more than the limit that comes with them.
func TestCrowdOfATierHeardOfLate(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		contractClaims(w)
		r := w.startRedis()
		i := w.load(withRedis(contract("", `"limit": {"metadata": ["jwt", "limit"], "default": 500, "max": 1000}`)))
		r.override(overrideOfX, "tier:pro", 0)
		var crowd []*exchange
		for range 200 {
			crowd = append(crowd, i.get("/", client("x")...))
		}
		for range 3 {
			r.settle()
			i.wait(time.Millisecond)
		}
		admitted := 0
		for _, x := range crowd {
			if x.end().Outcome == "allowed" {
				admitted++
			}
		}
		testenv.Same(t, "admitted", admitted, 7)
	})
}

// TestTierWithOver: limits that pay are beside those of every tier, also of one that Redis names.
func TestTierWithOver(t *testing.T) {
	t.Parallel()
	const rules = `{"name": "quota", "overrides": true, "key": [{"header": "x-client"}], "limits_by": {
		"source": {"header": "x-plan"}, "default": "free", "values": {
		"free": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "1h"}],
		"pro": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 2, "window": "1h"}],
		"ours": "unlimited"}},
		"over": {"limits": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 1, "window": "30m"}]}}`
	for setting, want := range map[string]string{
		"":                            "allowed over:quota limited:quota limited:quota",
		"tier:pro":                    "allowed allowed over:quota limited:quota",
		"tier:ours":                   "allowed allowed allowed allowed",
		"free":                        "allowed allowed allowed allowed",
		"x2":                          "allowed allowed over:quota over:quota",
		"limits:quota=2,quota-over=1": "allowed allowed over:quota limited:quota",
		"block":                       "blocked:quota blocked:quota blocked:quota blocked:quota",
	} {
		eachWorld(t, func(t *testing.T, w *worker) {
			r := w.startRedis()
			i := w.load(withRedis(rules))
			if setting != "" {
				r.override("rl:{quota|x}:override", setting, 0)
			}
			var got []string
			for range 4 {
				x := i.get("/", client("x")...)
				for range 2 {
					r.settle()
				}
				got = append(got, x.end().Outcome)
			}
			testenv.Same(t, setting, strings.Join(got, " "), want)
		})
	}
}

// TestTiersAreReadAheadOnce: what any tier may evaluate is evaluated with the request, once for each text, of
// rules with overrides alone.
func TestTiersAreReadAheadOnce(t *testing.T) {
	t.Parallel()
	rules := contract(`"cost": {"expr": "metadata.filter_metadata['jwt']['cost']", "default": 1, "max": 9},`,
		`"limit": {"metadata": ["jwt", "limit"], "default": 1, "max": 9},
			"cost": {"expr": "metadata.filter_metadata['jwt']['cost']", "default": 1, "max": 8}`)
	rules += ", " + strings.Replace(rules, `"a"`, `"b"`, 1)
	for _, tc := range []struct {
		name, rules string
		evaluations int
	}{
		{"with overrides", rules, 2},
		{"without", strings.ReplaceAll(rules, `"overrides": true,`, ""), 1}, // the rules' cost
	} {
		eachWorld(t, func(t *testing.T, w *worker) {
			contractClaims(w)
			w.startRedis()
			i := w.load(withRedis(tc.rules))
			calls := w.callsOf(func() { i.get("/", client("x")...) })
			testenv.Same(t, tc.name+": evaluations", calls["proxy_call_foreign_function"], tc.evaluations)
		})
	}
}
