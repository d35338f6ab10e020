// Package shown writes for people and programs what a client may have sent: its bytes cannot move
// the cursor of an operator's terminal, reorder a line or end it.
package shown

import (
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/plugin/jsontext"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Cell is a text for one line: controls (C0, DEL, C1), marks of direction and bytes that are not
// UTF-8 are percent-encoded. Of an identity, Identity takes it back.
func Cell(s string) string { return encode(s, jsontext.Hidden) }

// Lines is a text of several lines, which Cell would join.
func Lines(s string) string {
	return encode(s, func(r rune) bool { return r != '\n' && r != '\t' && jsontext.Hidden(r) })
}

// UTF8 is a text for JSON, with bytes that are not UTF-8 percent-encoded, so that Identity takes
// them back; encoding/json would make U+FFFD of all of them.
func UTF8(s string) string { return encode(s, func(rune) bool { return false }) }

// encode percent-encodes the bytes of hidden runes, and those that are not UTF-8.
func encode(s string, hidden func(rune) bool) string {
	var out []byte
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		broken := r == utf8.RuneError && size == 1
		for range size {
			if broken || hidden(r) {
				out = text.AppendEscape(out, s[i])
			} else {
				out = append(out, s[i])
			}
			i++
		}
	}
	return string(out)
}

// JSON escapes, as \uXXXX, what is hidden in the strings of a JSON text.
func JSON(encoded []byte) []byte {
	var out []byte
	for i := 0; i < len(encoded); {
		r, size := utf8.DecodeRune(encoded[i:])
		if r >= 0x7f && jsontext.Hidden(r) {
			quoted := jsontext.AppendString(nil, string(r))
			out = append(out, quoted[1:len(quoted)-1]...)
		} else {
			out = append(out, encoded[i:i+size]...)
		}
		i += size
	}
	return out
}

// Identity undoes Cell and UTF8: the identity as Redis' keys have it. Keys hold bytes from 0x80 on
// as they are and percent-encode all below that Cell does, so nothing else can be meant.
func Identity(s string) string { return Unescape(s, 0x80) }

// Unescape undoes the percent-encoding of bytes from least on.
func Unescape(s string, least byte) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if c, ok := text.Unescape(s, i); ok && c >= least {
			out.WriteByte(c)
			i += 2
			continue
		}
		out.WriteByte(s[i])
	}
	return out.String()
}

// Quoted is a list of names.
func Quoted(names []string) string {
	var all []string
	for _, name := range names {
		all = append(all, strconv.Quote(name))
	}
	return strings.Join(all, ", ")
}
