// Package celtext finds the regular expressions in a CEL text, without a parser for all
// of CEL: https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax.
package celtext

import (
	"strings"

	"github.com/sluiceproxy/sluice/plugin/text"
)

// Pattern is the pattern of one call of the function matches.
type Pattern struct {
	Text      string // what the literal stands for
	IsLiteral bool   // the pattern is one string literal and nothing else
}

// Patterns are those of all calls of matches in a CEL text, as a method of a text or as
// a function of a text and a pattern. Of a text that is not CEL it may miss some.
func Patterns(cel string) (all []Pattern) {
	tokens := scan(cel)
	for i := range tokens {
		if tokens[i].kind != name || tokens[i].text != "matches" || !tokens.is(i+1, "(") {
			continue
		}
		first := i + 2
		if !tokens.is(i-1, ".") || tokens.startsGlobal(i-1) {
			first = tokens.secondArgument(first)
		}
		p := Pattern{IsLiteral: first < len(tokens) && tokens[first].kind == literal && tokens.is(first+1, ")")}
		if p.IsLiteral {
			p.Text = tokens[first].text
		}
		all = append(all, p)
	}
	return all
}

type tokens []token

// token is a name, the value of a string literal, or one character of anything else.
type token struct {
	kind kind
	text string
}

type kind uint8

const (
	other kind = iota
	name
	literal
)

// is reports whether there is a token at i that is this character.
func (t tokens) is(i int, character string) bool {
	return i >= 0 && i < len(t) && t[i].kind == other && t[i].text == character
}

// startsGlobal reports whether the dot at i begins a name in the root scope, as in
// .matches(a, b): nothing before it has a member.
func (t tokens) startsGlobal(i int) bool {
	if i == 0 {
		return true
	}
	before := t[i-1]
	return before.kind == other && before.text != ")" && before.text != "]" && before.text != "}"
}

// secondArgument is where the second argument begins of a call whose first begins at i;
// len(t) if there is none.
func (t tokens) secondArgument(i int) int {
	depth := 0
	for ; i < len(t) && depth >= 0; i++ {
		switch {
		case t[i].kind != other:
		case t[i].text == "(" || t[i].text == "[" || t[i].text == "{":
			depth++
		case t[i].text == ")" || t[i].text == "]" || t[i].text == "}":
			depth--
		case t[i].text == "," && depth == 0:
			return i + 1
		}
	}
	return len(t)
}

// scan splits a text. It leaves out white space and comments.
func scan(cel string) (all tokens) {
	for len(cel) > 0 {
		size := 1
		switch c := cel[0]; {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f':
		case strings.HasPrefix(cel, "//"):
			if size = strings.IndexAny(cel, "\n\r"); size < 0 {
				size = len(cel)
			}
		default:
			var t token
			if t, size = next(cel); size == 0 {
				return all // a literal that does not end: not CEL
			}
			all = append(all, t)
		}
		cel = cel[size:]
	}
	return all
}

// next is the first token of a text, and its length.
func next(cel string) (token, int) {
	size := 0
	for size < len(cel) && isNamePart(cel[size], size) {
		size++
	}
	if size < len(cel) && (cel[size] == '"' || cel[size] == '\'') && isPrefix(cel[:size]) {
		value, end := unquote(cel[size:], isRaw(cel[:size]))
		if end == 0 {
			return token{}, 0
		}
		return token{kind: literal, text: value}, size + end
	}
	if size == 0 {
		return token{kind: other, text: cel[:1]}, 1
	}
	return token{kind: name, text: cel[:size]}, size
}

func isNamePart(c byte, at int) bool {
	return c == '_' || text.IsAlpha(c) || at > 0 && text.IsDigit(c)
}

// isPrefix reports whether s may stand before a quote: r for raw, b for bytes.
func isPrefix(s string) bool {
	switch strings.ToLower(s) {
	case "", "r", "b", "rb", "br":
		return true
	}
	return false
}

func isRaw(prefix string) bool { return strings.ContainsAny(prefix, "rR") }
