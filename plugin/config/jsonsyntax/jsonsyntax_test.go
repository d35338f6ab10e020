package jsonsyntax

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

const maxDepth = 20

// texts are right and wrong: more for the fuzzer to begin with.
var texts = []string{
	``, `{}`, `[]`, `{"a": [1, -0.5e+3, true, false, null, "\u00e9\\\"", {}]}`, `[1,]`, `{"a":1,}`,
	`"\ud800"`, "\"\x7f\"",
	`01`, `-`, `1.`, `1e`, `.5`, `{"a"}`, `{"a":}`, `{,}`, `[,]`, `nul`, `truefalse`, "[1\f]", "\xff",
	`"\u123"`, `[[]`, `]`,
}

// mistakes are texts, and the first mistake in each.
var mistakes = []struct{ text, want string }{
	{"{", `1:2: the text ends too early (want a field's name in double quotes)`},
	{
		"{\"rules\": [\n  {\"name\": \"r\",}\n]}",
		`2:16: unexpected '}' (want a field; is the comma before it one too many?)`,
	},
	{`{"rules": [1,]}`, `1:14: unexpected ']' (want a value; is the comma before it one too many?)`},
	{`{"rules": [1 2]}`, `1:14: unexpected '2' (want "," or "]")`},
	{"{\"a\": 1\n\"b\": 2}", `2:1: unexpected '"' (want "," or "}")`},
	{`{"a" 1}`, `1:6: unexpected '1' (want ":" after the field's name)`},
	{`{"größe": 'x'}`, `1:11: unexpected '\'' (want a value; strings stand in double quotes)`},
	{`{rules: []}`, `1:2: unexpected 'r' (want a field's name in double quotes)`},
	{"{\n  // a comment\n}", `2:3: unexpected '/' (want a field's name in double quotes)`},
	{`{"a": no}`, `1:7: unexpected 'n' (want a value; strings stand in double quotes)`},
	{`{"a": True}`, `1:7: unexpected 'T' (want a value)`},
	{`{"a": "b}`, `1:7: the string that starts here has no end (want a closing quote)`},
	{
		"{\"a\": \"b\nc\"}",
		`1:9: unexpected '\n' (want the string's closing quote; control characters are written as escapes such as "\n")`,
	},
	{`{"a": "\x"}`, `1:8: not an escape (want one of \" \\ \/ \b \f \n \r \t \u0000)`},
	{`{"a": "\u12g4"}`, `1:8: not an escape (want one of \" \\ \/ \b \f \n \r \t \u0000)`},
	{`{"a": "\`, `1:8: not an escape (want one of \" \\ \/ \b \f \n \r \t \u0000)`},
	{`{"a": 01}`, `1:7: not a JSON number (want one such as 100)`},
	{`{"a": 1.}`, `1:7: not a JSON number (want one such as 100)`},
	{`{"a": -}`, `1:7: not a JSON number (want one such as 100)`},
	{`{"a": 1e}`, `1:7: not a JSON number (want one such as 100)`},
	{`{"a": +1}`, `1:7: unexpected '+' (want a value)`},
	{`{} {}`, `1:4: unexpected '{' (want nothing after the configuration)`},
	{"{\"a\": 1}\x00", `1:9: unexpected '\x00' (want nothing after the configuration)`},
	{"\x00", `1:1: unexpected '\x00' (want a value)`},
	{
		"{\"a\": \"\x00\"}",
		`1:8: unexpected '\x00' (want the string's closing quote; control characters are written as escapes such as "\n")`,
	},
	{"{\"a\": \"é\xff\"}", `1:9: byte 0xff is not UTF-8 (want JSON in UTF-8)`},
	{"{\ufeff}", `1:2: unexpected '\ufeff' (want a field's name in double quotes)`},
	{strings.Repeat("[", maxDepth+1), `1:21: nested too deep (want at most 20 levels)`},
	{strings.Repeat("[", 100_000), `1:21: nested too deep (want at most 20 levels)`},
	{strings.Repeat(`{"a":`, 100_000), `1:101: nested too deep (want at most 20 levels)`},
}

func TestFind(t *testing.T) {
	t.Parallel()
	for _, tt := range mistakes {
		t.Run(fmt.Sprintf("%.30q", tt.text), func(t *testing.T) {
			t.Parallel()
			m, _ := Find(tt.text, maxDepth)
			testenv.Same(t, "the mistake", fmt.Sprintf("%d:%d: %s", m.Line, m.Column, m.Problem), tt.want)
		})
	}
}

func TestDeepest(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("[", maxDepth) + strings.Repeat("]", maxDepth)
	if mistake, found := Find(text, maxDepth); found {
		t.Error(mistake)
	}
}

// FuzzFind holds the scanner against another parser of JSON.
func FuzzFind(f *testing.F) {
	for _, seed := range texts {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		mistake, found := Find(text, maxDepth)
		if strings.Contains(mistake.Problem, "nested too deep") {
			return
		}
		if valid := utf8.ValidString(text) && json.Valid([]byte(text)); valid == found {
			t.Errorf("%q: valid: %v, yet %v", text, valid, mistake)
		}
	})
}
