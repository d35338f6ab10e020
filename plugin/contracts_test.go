package main

import (
	"strings"
	"testing"
	"time"

	"github.com/sluiceproxy/sluice/internal/testenv"
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
