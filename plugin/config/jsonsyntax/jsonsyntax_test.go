package jsonsyntax

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
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
var mistakes = []struct {
	text string
	want Mistake
}{
	{text: "{", want: Mistake{Line: 1, Column: 2, Problem: `the text ends too early (want a field's name in double ` +
		`quotes)`}},
	{
		text: "{\"rules\": [\n  {\"name\": \"r\",}\n]}",
		want: Mistake{Line: 2, Column: 16, Problem: `unexpected '}' (want a field; is the comma before it one too many?)`},
	},
	{text: `{"rules": [1,]}`, want: Mistake{
		Line: 1, Column: 14,
		Problem: `unexpected ']' (want a value; is the comma before it one too many?)`,
	}},
	{text: `{"rules": [1 2]}`, want: Mistake{Line: 1, Column: 14, Problem: `unexpected '2' (want "," or "]")`}},
	{text: "{\"a\": 1\n\"b\": 2}", want: Mistake{Line: 2, Column: 1, Problem: `unexpected '"' (want "," or "}")`}},
	{text: `{"a" 1}`, want: Mistake{Line: 1, Column: 6, Problem: `unexpected '1' (want ":" after the field's name)`}},
	{text: `{"größe": 'x'}`, want: Mistake{
		Line: 1, Column: 11,
		Problem: `unexpected '\'' (want a value; strings stand in double quotes)`,
	}},
	{text: `{rules: []}`, want: Mistake{Line: 1, Column: 2, Problem: `unexpected 'r' (want a field's name in double ` +
		`quotes)`}},
	{
		text: "{\n  // a comment\n}",
		want: Mistake{Line: 2, Column: 3, Problem: `unexpected '/' (want a field's name in double quotes)`},
	},
	{text: `{"a": no}`, want: Mistake{Line: 1, Column: 7, Problem: `unexpected 'n' (want a value; strings stand in ` +
		`double quotes)`}},
	{text: `{"a": True}`, want: Mistake{Line: 1, Column: 7, Problem: `unexpected 'T' (want a value)`}},
	{text: `{"a": "b}`, want: Mistake{Line: 1, Column: 7, Problem: `the string that starts here has no end (want a ` +
		`closing quote)`}},
	{text: "{\"a\": \"b\nc\"}", want: Mistake{Line: 1, Column: 9, Problem: `unexpected '\n' (want the string's closing ` +
		`quote; control characters are written as escapes such as "\n")`}},
	{text: `{"a": "\x"}`, want: Mistake{Line: 1, Column: 8, Problem: `not an escape (want one of \" \\ \/ \b \f \n \r ` +
		`\t \u0000)`}},
	{text: `{"a": "\u12g4"}`, want: Mistake{
		Line: 1, Column: 8,
		Problem: `not an escape (want one of \" \\ \/ \b \f \n \r \t \u0000)`,
	}},
	{text: `{"a": "\`, want: Mistake{Line: 1, Column: 8, Problem: `not an escape (want one of \" \\ \/ \b \f \n \r \t ` +
		`\u0000)`}},
	{text: `{"a": 01}`, want: Mistake{Line: 1, Column: 7, Problem: `not a JSON number (want one such as 100)`}},
	{text: `{"a": 1.}`, want: Mistake{Line: 1, Column: 7, Problem: `not a JSON number (want one such as 100)`}},
	{text: `{"a": -}`, want: Mistake{Line: 1, Column: 7, Problem: `not a JSON number (want one such as 100)`}},
	{text: `{"a": 1e}`, want: Mistake{Line: 1, Column: 7, Problem: `not a JSON number (want one such as 100)`}},
	{text: `{"a": +1}`, want: Mistake{Line: 1, Column: 7, Problem: `unexpected '+' (want a value)`}},
	{text: `{} {}`, want: Mistake{Line: 1, Column: 4, Problem: `unexpected '{' (want nothing after the configuration)`}},
	{text: "{\"a\": 1}\x00", want: Mistake{
		Line: 1, Column: 9,
		Problem: `unexpected '\x00' (want nothing after the configuration)`,
	}},
	{text: "\x00", want: Mistake{Line: 1, Column: 1, Problem: `unexpected '\x00' (want a value)`}},
	{text: "{\"a\": \"\x00\"}", want: Mistake{Line: 1, Column: 8, Problem: `unexpected '\x00' (want the string's ` +
		`closing quote; control characters are written as escapes such as "\n")`}},
	{
		text: "{\"a\": \"é\xff\"}",
		want: Mistake{Line: 1, Column: 9, Problem: `byte 0xff is not UTF-8 (want JSON in UTF-8)`},
	},
	{text: "{\ufeff}", want: Mistake{Line: 1, Column: 2, Problem: `unexpected '\ufeff' (want a field's name in double ` +
		`quotes)`}},
	{
		text: strings.Repeat("[", maxDepth+1),
		want: Mistake{Line: 1, Column: 21, Problem: `nested too deep (want at most 20 levels)`},
	},
	{
		text: strings.Repeat("[", 100_000),
		want: Mistake{Line: 1, Column: 21, Problem: `nested too deep (want at most 20 levels)`},
	},
	{
		text: strings.Repeat(`{"a":`, 100_000),
		want: Mistake{Line: 1, Column: 101, Problem: `nested too deep (want at most 20 levels)`},
	},
}

func TestFind(t *testing.T) {
	t.Parallel()
	for _, tt := range mistakes {
		t.Run(fmt.Sprintf("%.30q", tt.text), func(t *testing.T) {
			t.Parallel()
			got, found := Find(tt.text, maxDepth)
			if !found {
				t.Fatalf("%.60q: no mistake", tt.text)
			}
			if got != tt.want {
				t.Errorf("%.60q:\ngot  %+v\nwant %+v", tt.text, got, tt.want)
			}
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
