package envoycel

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/cel-go/common/ast"

	"github.com/sluiceproxy/sluice/cmd/sluice/advice/celtext"
)

// TestPatternsOfMatches holds the scanner that finds the patterns in an expression to a
// parser of CEL: literals in every form, in calls of both forms, between much else.
func TestPatternsOfMatches(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	parsed := 0
	for range 20_000 {
		text := randomCall(r)
		tree, issues := environment.Parse(text)
		if issues.Err() != nil {
			continue
		}
		parsed++
		want := parsedPatterns(tree.NativeRep().Expr())
		var got []string
		for _, p := range celtext.Patterns(text) {
			got = append(got, fmt.Sprintf("%v %q", p.IsLiteral, p.Text))
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Fatalf("patterns of %s\nare %s, want %s", text, got, want)
		}
	}
	if parsed < 5_000 {
		t.Errorf("only %d of the texts are CEL", parsed)
	}
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

func randomLiteral(r *rand.Rand) string {
	quote := pick(r, `"`, `'`, `"""`, `'''`)
	var b strings.Builder
	for range r.IntN(5) {
		b.WriteString(pick(r, `a`, `"`, `'`, `\"`, `\'`, `\\`, `\\d`, `\x41`, `\101`, `\u00e9`, `\U0001F600`, `\n`, "\n",
			`//`, `(`, `,`, `é`, `\`, `.matches(`))
	}
	return pick(r, "", "", "r", "R") + quote + b.String() + quote
}

func randomArgument(r *rand.Rand) string {
	switch r.IntN(8) {
	case 0:
		return "x.y"
	case 1:
		return randomLiteral(r) + " + 'b'"
	case 2:
		return "f(x, [" + randomLiteral(r) + "], {'a': 1})"
	}
	return randomLiteral(r)
}

func randomCall(r *rand.Rand) string {
	space := func() string { return pick(r, "", "", " ", "\n", " // 'x.matches(\n") }
	target := pick(r, "x", "x[0]", "f(x, 'a')", "'t'", "x.matches('y')", "(x)", "{'a': 1}.a")
	call := target + space() + "." + space() + "matches" + space() + "(" + space() + randomArgument(r) + space() + ")"
	if r.IntN(3) == 0 {
		call = pick(r, "", ".") + "matches" + space() + "(" + target + "," + space() + randomArgument(r) + ")"
	}
	return pick(r, "", "a == 1 && ", "[", "!") + call + pick(r, "", " || "+call, "]")
}

// parsedPatterns are the patterns of all calls of matches, in order.
func parsedPatterns(root ast.Expr) (all []string) {
	ast.PostOrderVisit(root, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() != ast.CallKind || strings.TrimPrefix(e.AsCall().FunctionName(), ".") != "matches" {
			return
		}
		arguments := e.AsCall().Args()
		pattern := arguments[len(arguments)-1]
		value, literal := "", false
		if pattern.Kind() == ast.LiteralKind {
			value, literal = pattern.AsLiteral().Value().(string)
		}
		all = append(all, fmt.Sprintf("%v %q", literal, value))
	}))
	slices.Sort(all)
	return all
}
