package main

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// overridden is a rule of five an hour for each x-client that reads overrides.
func overridden(more string) string {
	return `{"name": "a", "key": [{"header": "x-client"}], "overrides": true,
		"limits": [{"algorithm": "fixed_window", "limit": 5, "window": "1h", "anchor": "first_request"}]` + more + `}`
}

const overrideOfX = "rl:{a|x}:override"

// Whatever type the operator's key has, the limits decide, and one line tells of it.
func TestOverrideOfAnotherType(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		r := w.startRedis()
		i := w.load(withRedis(overridden("")))
		for _, c := range []string{"x", "y"} {
			key := strings.Replace(overrideOfX, "|x", "|"+c, 1)
			if err := r.Client().RPush(context.Background(), key, "block").Err(); err != nil && err != redis.Nil {
				t.Fatal(err)
			}
			for n := range 3 {
				x := i.get("/", client(c)...)
				r.settle()
				w.expect(c, x.end(), fmt.Sprintf("200 allowed limit=5 remaining=%d reset=3600", 4-n))
			}
			w.clock.advance(time.Hour)
		}
		w.expectLogs(`warn sluice: the override of "a|x" is not valid`, `warn sluice: the override of "a|y" is not valid`)
	})
}

// Contracts: tiers that overrides name, which a worker may not know when the request comes.

// contract is a rule whose free tier is a limit of 500, and whose pro tier is another.
func contract(fields, pro string) string {
	return `{"name": "a", "overrides": true, "key": [{"header": "x-client"}], ` + fields + ` "limits_by": {
		"source": {"header": "x-plan"}, "default": "free", "values": {
		"free": [{"algorithm": "fixed_window", "anchor": "first_request", "limit": 500, "window": "1h"}],
		"pro": [{"algorithm": "fixed_window", "anchor": "first_request", "window": "1h", ` + pro + `}]}}}`
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
			w.attributes = map[string]any{"metadata": map[string]any{"filter_metadata": map[string]any{
				"jwt": map[string]any{"limit": 7.0, "cost": 3.0, "team": "red", "class": "bulk"},
			}}}
			w.startRedis()
			i := w.load(withRedis(tc.rules))
			calls := w.callsOf(func() { i.get("/", client("x")...) })
			testenv.Same(t, tc.name+": evaluations", calls["proxy_call_foreign_function"], tc.evaluations)
		})
	}
}
