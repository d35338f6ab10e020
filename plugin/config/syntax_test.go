package config

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// nested is a configuration whose rule nests "not" so deep that all nests depth
// levels.
func nested(depth int) string {
	const outer = `{"rules": [{"name": "r", "limits": [` + aLimit + `], "match": `
	nots := depth - 4 // the configuration, its rules, the rule, its match
	return outer + strings.Repeat(`{"not": `, nots) + `{"path": "/a"}` + strings.Repeat("}", nots) + `}]}`
}

func TestSyntaxMistakes(t *testing.T) {
	t.Parallel()
	tests := []struct{ text, want string }{
		{"", `the configuration is empty (want an object with "rules", or {"role": "bridge"})`},
		{" \r\n\t", `the configuration is empty (want an object with "rules", or {"role": "bridge"})`},
		{"\ufeff", `the configuration is empty (want an object with "rules", or {"role": "bridge"})`},
		{"{", `line 1, column 2: the text ends too early (want a field's name in double quotes)`},
		{"{\"rules\": [\n  {\"name\": \"r\",}\n]}", `line 2, column 16: unexpected '}' (want a field; is the comma before it one too many?)`},
		{`{"rules": [1,]}`, `line 1, column 14: unexpected ']' (want a value; is the comma before it one too many?)`},
		{`{"rules": [1 2]}`, `line 1, column 14: unexpected '2' (want "," or "]")`},
		{"{\"a\": 1\n\"b\": 2}", `line 2, column 1: unexpected '"' (want "," or "}")`},
		{`{"a" 1}`, `line 1, column 6: unexpected '1' (want ":" after the field's name)`},
		{`{"größe": 'x'}`, `line 1, column 11: unexpected '\'' (want a value; strings stand in double quotes)`},
		{`{rules: []}`, `line 1, column 2: unexpected 'r' (want a field's name in double quotes)`},
		{"{\n  // a comment\n}", `line 2, column 3: unexpected '/' (want a field's name in double quotes)`},
		{`{"a": no}`, `line 1, column 7: unexpected 'n' (want a value; strings stand in double quotes)`},
		{`{"a": True}`, `line 1, column 7: unexpected 'T' (want a value)`},
		{`{"a": "b}`, `line 1, column 7: the string that starts here has no end (want a closing quote)`},
		{"{\"a\": \"b\nc\"}", `line 1, column 9: unexpected '\n' (want the string's closing quote; control characters are written as escapes such as "\n")`},
		{`{"a": "\x"}`, `line 1, column 8: not an escape (want one of \" \\ \/ \b \f \n \r \t \u0000)`},
		{`{"a": "\u12g4"}`, `line 1, column 8: not an escape (want one of \" \\ \/ \b \f \n \r \t \u0000)`},
		{`{"a": "\`, `line 1, column 8: not an escape (want one of \" \\ \/ \b \f \n \r \t \u0000)`},
		{`{"a": 01}`, `line 1, column 7: not a JSON number (want one such as 100)`},
		{`{"a": 1.}`, `line 1, column 7: not a JSON number (want one such as 100)`},
		{`{"a": -}`, `line 1, column 7: not a JSON number (want one such as 100)`},
		{`{"a": 1e}`, `line 1, column 7: not a JSON number (want one such as 100)`},
		{`{"a": +1}`, `line 1, column 7: unexpected '+' (want a value)`},
		{`{} {}`, `line 1, column 4: unexpected '{' (want nothing after the configuration)`},
		{"{\"a\": 1}\x00", `line 1, column 9: unexpected '\x00' (want nothing after the configuration)`},
		{"\x00", `line 1, column 1: unexpected '\x00' (want a value)`},
		{"{\"a\": \"\x00\"}", `line 1, column 8: unexpected '\x00' (want the string's closing quote; control characters are written as escapes such as "\n")`},
		{"{\"a\": \"é\xff\"}", `line 1, column 9: byte 0xff is not UTF-8 (want JSON in UTF-8)`},
		{"{\ufeff}", `line 1, column 2: unexpected '\ufeff' (want a field's name in double quotes)`},
		{nested(maxDepth + 1), `line 1, column 235: nested too deep (want at most 20 levels)`},
		{strings.Repeat("[", 100_000), `line 1, column 21: nested too deep (want at most 20 levels)`},
		{strings.Repeat(`{"a":`, 100_000), `line 1, column 101: nested too deep (want at most 20 levels)`},
	}
	for _, tt := range tests {
		if got := strings.Join(mistakeLines([]byte(tt.text)), "\n"); got != tt.want {
			t.Errorf("%.60q:\ngot  %s\nwant %s", tt.text, got, tt.want)
		}
	}
}

func TestDeepestConfiguration(t *testing.T) {
	t.Parallel()
	if _, err := Parse([]byte(nested(maxDepth))); err != nil {
		t.Error(err)
	}
}

func TestByteOrderMark(t *testing.T) {
	t.Parallel()
	if _, err := Parse([]byte("\ufeff" + `{"role": "bridge"}`)); err != nil {
		t.Error(err)
	}
}

// FuzzSyntax holds the scanner against another parser of JSON.
func FuzzSyntax(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `[]`, `{"a": [1, -0.5e+3, true, false, null, "\u00e9\\\"", {}]}`, `[1,]`, `{"a":1,}`, `"\ud800"`, "\"\x7f\"",
		`01`, `-`, `1.`, `1e`, `.5`, `{"a"}`, `{"a":}`, `{,}`, `[,]`, `nul`, `truefalse`, "[1\f]", "\xff", `"\u123"`, `[[]`, `]`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		mistake, found := syntaxMistake(text)
		if strings.Contains(mistake.Problem, "nested too deep") {
			return
		}
		if valid := utf8.ValidString(text) && json.Valid([]byte(text)); valid == found {
			t.Errorf("%q: valid: %v, yet %v", text, valid, mistake)
		}
	})
}
