package main

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// Contracts: tiers that overrides name, which a worker may not know when the request comes.

// TestTiersAreReadAheadOnce: what any tier may evaluate is evaluated with the request, once for each text, of
// rules with overrides alone.
func TestTiersAreReadAheadOnce(t *testing.T) {
	t.Parallel()
	rules := `{"name": "a", "overrides": true, "key": [{"header": "x-client"}],
		"cost": {"expr": "metadata.filter_metadata['jwt']['cost']", "default": 1, "max": 9},
		"limits_by": {"source": {"header": "x-plan"}, "default": "free", "values": {
			"free": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 500, "window": "1h"}],
			"pro": [{"algorithm": "fixed_window", "anchor": "first_request", "window": "1h",
				"limit": {"metadata": ["jwt", "limit"], "default": 1, "max": 9},
				"cost": {"expr": "metadata.filter_metadata['jwt']['cost']", "default": 1, "max": 8}}]}}}`
	rules += ", " + strings.Replace(rules, `"a"`, `"b"`, 1)
	for _, tc := range []struct {
		name, rules string
		evaluations int
	}{
		{"with overrides", rules, 2},
		{"without", strings.ReplaceAll(rules, `"overrides": true,`, ""), 1}, // the rules' cost
	} {
		eachWorld(t, func(t *testing.T, w *worker) {
			w.Attributes = map[string]any{"metadata": map[string]any{"filter_metadata": map[string]any{
				"jwt": map[string]any{"limit": 7.0, "cost": 3.0, "team": "red", "class": "bulk"},
			}}}
			w.startRedis()
			i := w.load(withRedis(tc.rules))
			calls := w.callsOf(func() { i.get("/", client("x")...) })
			testenv.Same(t, tc.name+": evaluations", calls["proxy_call_foreign_function"], tc.evaluations)
		})
	}
}
