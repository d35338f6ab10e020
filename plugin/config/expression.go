package config

import "strings"

// Expression is a CEL text of a configuration. Envoy compiles and evaluates it.
type Expression struct {
	Path string // such as "rules[0].match.expr"
	Text string
	Kind ExpressionKind
}

// ExpressionKind is the use of an Expression's value.
type ExpressionKind uint8

// The kinds of expressions.
const (
	BoolExpression   ExpressionKind = iota // true holds, anything else does not
	TextExpression                         // null and an error are absent
	NumberExpression                       // a negative one, NaN, infinity and an error are the default
)

// Mistake is the mistake of an expression that does not compile. The reason may
// be empty.
func (e Expression) Mistake(reason string) Mistake {
	problem := quoted(e.Text) + " is not an expression that Envoy compiles"
	if reason != "" {
		problem += ": " + reason
	}
	return Mistake{Path: e.Path, Problem: problem + ` (want CEL such as "request.method == 'POST'")`}
}

func withoutSpaces(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\n", r) {
			return -1
		}
		return r
	}, s)
}

// Bound: bytes of an expression. Beyond it, the configuration is refused. Protects Envoy's compiler
// of expressions.
const maxExpressionBytes = 4096

// readExpression reads a CEL text.
func readExpression(v value, kind ExpressionKind) string {
	text, ok := v.readText()
	switch {
	case !ok:
		return ""
	case withoutSpaces(text) == "":
		v.mistake(`the expression is empty (want CEL such as "request.method == 'POST'")`)
		return ""
	case len(text) > maxExpressionBytes:
		v.mistake("the expression has %d bytes (want at most %d)", len(text), maxExpressionBytes)
		return ""
	}
	e := Expression{Path: v.path, Text: text, Kind: kind}
	v.r.expressions = append(v.r.expressions, e)
	if v.r.checks.Expression == nil {
		return text
	}
	err, known := v.r.compiled[text]
	if !known { // each text once
		err = v.r.checks.Expression(text)
		v.r.compiled[text] = err
	}
	if err != nil {
		v.mistake("%s", e.Mistake(err.Error()).Problem)
	}
	return text
}

// readCondition reads a CEL text that is true or not.
func readCondition(v value) string { return readExpression(v, BoolExpression) }
