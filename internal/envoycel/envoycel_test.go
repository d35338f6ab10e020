package envoycel

import (
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestCompile holds what is refused to what envoy --mode validate (1.40.0) refuses.
func TestCompile(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, problem string }{
		{"request.method in ['POST', 'PUT']", ""},
		{"'a'.matches('a') && matches('a', 'a')", ""},
		{"request.nosuch", ""},
		{"[1, 2].exists(x, x > 1)", ""},
		{strings.Repeat("(", 30) + "1" + strings.Repeat(")", 30), ""},
		{strings.Repeat("(", 40) + "1" + strings.Repeat(")", 40), "recursion"},
		{"1" + strings.Repeat(" + 1", 100), "recursion"},
		{"1) || (1", "mismatched input ')'"},
		{"upper('a')", "there is no function upper"},
		{"1 + upper('a')", "there is no function upper"},
		{"size('a', 'b')", "the function size does not take 2 arguments"},
		{"'a'.startsWith()", "the function startsWith does not take 0 arguments"},
		{"'1'.double()", "the function double does not take 0 arguments"},
		{"x.?y", "unsupported syntax"},
	} {
		problem := ""
		if _, err := Compile(c.text); err != nil {
			problem = err.Error()
		}
		testenv.Same(t, c.text+": that it compiles", problem == "", c.problem == "")
		if !strings.Contains(problem, c.problem) {
			t.Errorf("%s: %s, want %q", c.text, problem, c.problem)
		}
	}
}
