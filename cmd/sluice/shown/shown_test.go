package shown

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

func TestText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, text, cell, lines, utf8 string }{
		{"plain", "a|b é 漢", "a|b é 漢", "a|b é 漢", "a|b é 漢"},
		{"C0", "a\x1b[31m\r", "a%1B[31m%0D", "a%1B[31m%0D", "a\x1b[31m\r"},
		{"lines", "a\n\tb", "a%0A%09b", "a\n\tb", "a\n\tb"},
		{"DEL", "a\x7f", "a%7F", "a%7F", "a\x7f"},
		{"C1", "a\u009b31m", "a%C2%9B31m", "a%C2%9B31m", "a\u009b31m"},
		{"an override of direction", "a\u202eb", "a%E2%80%AEb", "a%E2%80%AEb", "a\u202eb"},
		{"an isolate", "\u2066", "%E2%81%A6", "%E2%81%A6", "\u2066"},
		{"no UTF-8", "a\xff\x9bb", "a%FF%9Bb", "a%FF%9Bb", "a%FF%9Bb"},
		{"half a rune", "\xe6\xbc", "%E6%BC", "%E6%BC", "%E6%BC"},
		{"a key's own escapes", "%7C%25FF", "%7C%25FF", "%7C%25FF", "%7C%25FF"},
		{"a formula", "=cmd()", "=cmd()", "=cmd()", "=cmd()"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if got := Cell(c.text); got != c.cell {
				t.Errorf("Cell %q, want %q", got, c.cell)
			}
			if got := Lines(c.text); got != c.lines {
				t.Errorf("Lines %q, want %q", got, c.lines)
			}
			if got := UTF8(c.text); got != c.utf8 {
				t.Errorf("UTF8 %q, want %q", got, c.utf8)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	t.Parallel()
	const text = "a\u009b\u202e\x7f\n\x1b é"
	encoded, err := json.Marshal(text)
	testenv.OK(t, err)
	const want = `"a\u009b\u202e\u007f\n\u001b é"`
	got := JSON(encoded)
	if string(got) != want {
		t.Errorf("%s, want %s", got, want)
	}
	var back string
	if err := json.Unmarshal(got, &back); err != nil || back != text {
		t.Errorf("%q, %v; want %q", back, err, text)
	}
}

// FuzzIdentity holds that what is shown of an identity leads back to it.
func FuzzIdentity(f *testing.F) {
	f.Add("v\u009b31mRED\u202e\xff\x9b")
	f.Add("%C2%9B")
	f.Fuzz(func(t *testing.T, value string) {
		var identity []byte // as keys have it: plugin/rule escapes these, and leaves all from 0x80 on
		for _, c := range []byte(value) {
			if c <= ' ' || bytes.IndexByte([]byte("\x7f%"), c) >= 0 {
				identity = append(identity, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
			} else {
				identity = append(identity, c)
			}
		}
		for _, text := range []string{Cell(string(identity)), UTF8(string(identity)), string(identity)} {
			if got := Identity(text); got != string(identity) {
				t.Errorf("%q leads to %q, want %q", text, got, identity)
			}
		}
	})
}
