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

func TestExpressions(t *testing.T) {
	t.Parallel()
	claims := map[string]any{"metadata": map[string]any{"filter_metadata": map[string]any{
		"envoy.filters.http.jwt_authn": map[string]any{"payload": map[string]any{"sub": "alice", "cost": 2.0, "text": "2"}},
	}}}
	const (
		payload = `metadata.filter_metadata['envoy.filters.http.jwt_authn']['payload']`
		writes  = `request.headers['x-plan'] == 'free' && request.method in ['GET', 'PUT']`
		all     = "allowed allowed limited:a"
		first   = "allowed limited:a limited:a"
		none    = "none none none"
	)
	for _, tt := range []struct {
		name, fields string
		plan         string // the header x-plan, if there is one
		want         string // outcomes of three requests
	}{
		{name: "a match that holds", fields: `"match": {"expr": "` + writes + `"}`, plan: "free", want: all},
		{name: "a match that does not hold", fields: `"match": {"expr": "` + writes + `"}`, plan: "pro", want: none},
		{name: "a match without a value", fields: `"match": {"expr": "` + writes + `"}`, want: none},
		{name: "a match that is not a bool", fields: `"match": {"expr": "'true'"}`, want: none},
		{name: "not", fields: `"match": {"not": {"expr": "` + writes + `"}}`, want: all},
		{name: "a comment", fields: `"match": {"expr": "true // or not"}`, want: all},
		{name: "beside another field", fields: `"match": {"expr": "true", "methods": ["POST"]}`, want: none},
		{name: "a key", fields: `"key": [{"expr": "` + payload + `['sub']"}]`, want: all},
		{name: "a key that is a number", fields: `"key": [{"expr": "` + payload + `['cost']"}]`, want: all},
		{name: "a key without a value", fields: `"key": [{"expr": "request.headers['x-none']"}]`, want: none},
		{name: "a key that is null", fields: `"key": [{"expr": "null"}]`, want: none},
		{name: "a default", fields: `"key": [{"expr": "request.headers['x-none']", "default": "x"}]`, want: all},
		{name: "a cost", fields: `"cost": {"expr": "` + payload + `['cost']", "max": 2}`, want: first},
		{name: "a cost that is text", fields: `"cost": {"expr": "` + payload + `['text']", "max": 2}`, want: first},
		{name: "a cost that is rounded", fields: `"cost": {"expr": "1.9", "max": 2}`, want: all},
		{name: "a cost above max", fields: `"cost": {"expr": "1e300", "max": 2}`, want: first},
		{name: "a cost below 0", fields: `"cost": {"expr": "-1", "max": 2}`, want: all},
		{name: "a cost without a value", fields: `"cost": {"expr": "request.headers['x-none']", "max": 2}`, want: all},
		{name: "a cost that is infinite", fields: `"cost": {"expr": "1.0 / 0.0", "max": 2}`, want: all},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachWorld(t, func(t *testing.T, w *worker) {
				w.attributes = claims
				i := w.load(expressed(tt.fields))
				var got []string
				for range 3 {
					var headers []string
					if tt.plan != "" {
						headers = []string{"x-plan", tt.plan}
					}
					x := i.get("/", headers...)
					got = append(got, x.outcome())
					x.End()
				}
				if got := strings.Join(got, " "); got != tt.want {
					t.Errorf("outcomes are %q, want %q", got, tt.want)
				}
			})
		})
	}
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
