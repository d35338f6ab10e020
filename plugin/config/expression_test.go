package config

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

const withExpressions = `{"rules": [
	{"name": "a", "match": {"expr": "1 +", "not": {"expr": "true"}}, "exempt": true},
	{"name": "b", "key": [{"host": true}, {"expr": "1 +"}], "cost": {"expr": "bad", "default": 2000000},
	 "limits_by": {"source": {"expr": "request.id"}, "values": {"x y": "unlimited"}}}]}`

// TestChecksExpressions: mistakes of expressions stand among the others, with
// the same paths, and each text is compiled once.
func TestChecksExpressions(t *testing.T) {
	t.Parallel()
	var compiled []string
	checks := Checks{Expression: func(text string) error {
		compiled = append(compiled, text)
		switch text {
		case "1 +":
			return errors.New("unexpected end")
		case "bad":
			return errors.New("")
		}
		return nil
	}}
	_, err := checks.Parse([]byte(withExpressions))
	testenv.SameList(t, "mistakes", Lines(err), []string{
		`sluice: rules[0].match.expr: "1 +" is not an expression that Envoy compiles: unexpected end` +
			` (want CEL such as "request.method == 'POST'") (mistake 1 of 4)`,
		`sluice: rules[1].key[1].expr: "1 +" is not an expression that Envoy compiles: unexpected end` +
			` (want CEL such as "request.method == 'POST'") (mistake 2 of 4)`,
		`sluice: rules[1].cost.expr: "bad" is not an expression that Envoy compiles` +
			` (want CEL such as "request.method == 'POST'") (mistake 3 of 4)`,
		`sluice: rules[1].cost.default: 2000000 is out of bounds (want 0 to 1000000) (mistake 4 of 4)`,
	})
	slices.Sort(compiled)
	testenv.SameList(t, "compiled", compiled, []string{"1 +", "bad", "request.id", "true"})
}

func TestLongExpressions(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", maxExpressionBytes)
	text, _ := testenv.WholeConfig("match", `{"expr": "`+long+`"}`)
	_, err := Parse([]byte(text))
	testenv.OK(t, err)
	text, _ = testenv.WholeConfig("match", `{"expr": "`+long+`x"}`)
	_, err = Parse([]byte(text))
	testenv.Same(t, "too long", err.Error(),
		"sluice: rules[0].match.expr: the expression has 4097 bytes (want at most 4096)")
}
