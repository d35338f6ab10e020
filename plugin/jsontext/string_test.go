package jsontext

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
)

func TestAppendString(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ name, in, want string }{
		{name: "empty", want: `""`},
		{name: "plain", in: "alice@example.com", want: `"alice@example.com"`},
		{name: "JSON's own", in: "a\"b\\c", want: `"a\"b\\c"`},
		{name: "C0 and DEL", in: "\x00\n\x1b[2J\x7f", want: `"\u0000\u000a\u001b[2J\u007f"`},
		{name: "C1: CSI", in: "\u009b2J\u0080\u009f", want: `"\u009b2J\u0080\u009f"`},
		{name: "overrides", in: "\u202egnp.exe\u202c", want: `"\u202egnp.exe\u202c"`},
		{name: "isolates", in: "\u2066a\u2069", want: `"\u2066a\u2069"`},
		{name: "marks", in: "\u061c\u200e\u200f", want: `"\u061c\u200e\u200f"`},
		{name: "lines", in: "\u2028\u2029", want: `"\u2028\u2029"`},
		{name: "letters of any script", in: "é日本😀\u00a0", want: `"é日本😀` + "\u00a0" + `"`},
		{name: "no UTF-8", in: "a\x9b\xffb", want: `"a` + "\uFFFD\uFFFD" + `b"`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			if got := string(AppendString([]byte("x"), test.in)); got != "x"+test.want {
				t.Errorf("%s, want x%s", got, test.want)
			}
		})
	}
}

// Any text comes back as it was, and nothing in the line is a control or changes
// the direction of text.
func FuzzAppendString(f *testing.F) {
	f.Add("\u202e\u009b\x00\xff\"\\日")
	f.Fuzz(func(t *testing.T, s string) {
		got := string(AppendString(nil, s))
		var back string
		if err := json.Unmarshal([]byte(got), &back); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if want := string([]rune(s)); back != want {
			t.Errorf("%q came back as %q", want, back)
		}
		if i := strings.IndexFunc(got, func(r rune) bool {
			return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)
		}); i >= 0 {
			t.Errorf("%q has a control at %d", got, i)
		}
	})
}
