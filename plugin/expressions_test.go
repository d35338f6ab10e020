package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// expressed is a configuration without Redis, of one rule with these fields and a
// limit of 2.
func expressed(fields string) string {
	return `{"rules": [{"name": "a", ` + fields + `, "limits": [
		{"algorithm": "fixed_window", "limit": 2, "window": "1h", "anchor": "first_request"}]}]}`
}

// A text that Envoy does not compile refuses the configuration.
func TestExpressionsThatDoNotCompile(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, expr string }{
		{name: "no expression", expr: "1 +"},
		{name: "two halves of what wraps it", expr: "1) || (1"},
		{name: "an unknown function", expr: "request.path.split('/')"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				if _, err := w.start(expressed(`"match": {"expr": "` + tt.expr + `"}`)); err == nil {
					t.Error("the configuration was not refused")
				}
				want := fmt.Sprintf(`rules[0].match.expr: %q is not an expression that Envoy compiles`, tt.expr)
				if !w.logged(want) {
					t.Errorf("the log lacks %q: %q", want, w.logs())
				}
			})
		})
	}
}

// Each text is evaluated once a request, whatever many rules use it.
func TestExpressionsAreEvaluatedOnce(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		var rules []string
		for n := range 5 {
			rules = append(rules, fmt.Sprintf(`{"name": "r%d",
				"match": {"expr": "request.method == 'GET'"}, "key": [{"expr": "request.host"}],
				"limits": [{"algorithm": "gcra", "limit": 100, "window": "1s"}]}`, n))
		}
		i := w.load(`{"rules": [` + strings.Join(rules, ",") + `]}`)
		calls := w.callsOf(func() { i.get("/").End() })
		if got := calls["proxy_call_foreign_function"]; got != 2 {
			t.Errorf("%d evaluations, want 2", got)
		}
	})
}

// Expressions live as long as their configuration.
func TestExpressionsOfManyReloads(t *testing.T) {
	t.Parallel()
	eachWorld(t, func(t *testing.T, w *worker) {
		config := expressed(`"match": {"expr": "request.method == 'GET'"},
			"key": [{"expr": "request.host"}], "cost": {"expr": "1"}`)
		var last *instance
		for range 1000 / testenv.Stride() {
			i := w.load(config)
			if got := i.Expressions(); got != 3 {
				t.Fatalf("%d expressions, want 3", got)
			}
			i.get("/").End()
			if last != nil {
				last.Close()
				if got := last.Expressions(); got != 0 {
					t.Fatalf("%d expressions are left, want none", got)
				}
			}
			last = i
		}
	})
}
