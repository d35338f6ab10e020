// Package jsontext writes JSON that people read in terminals: what a client has
// sent cannot move the cursor, reorder the line or end it.
package jsontext

import (
	"slices"
	"unicode/utf8"
)

// AppendString appends s as a JSON string (RFC 8259, section 7). JSON wants some characters escaped.
// AppendString also escapes DEL, the C1 controls, which terminals obey, and what changes the
// direction or the lines of text: the format controls of
// https://www.unicode.org/reports/tr9/#Directional_Formatting_Characters and
// U+2028 and U+2029. Bytes that are not UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	if begin, end := len(dst), len(dst)+1+len(s); plainLen(s) == len(s) { // nearly always
		dst = slices.Grow(dst, len(s)+2)[:end+1]
		copy(dst[begin+1:], s)
		dst[begin], dst[end] = '"', '"'
		return dst
	}
	dst = append(dst, '"')
	for len(s) > 0 {
		if n := plainLen(s); n > 0 { // most of it, in one piece
			dst, s = append(dst, s[:n]...), s[n:]
			continue
		}
		r, size := utf8.DecodeRuneInString(s)
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case Hidden(r):
			const digits = "0123456789abcdef"
			dst = append(dst, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
		case r == utf8.RuneError && size == 1:
			dst = append(dst, "\uFFFD"...)
		default:
			dst = append(dst, s[:size]...)
		}
		s = s[size:]
	}
	return append(dst, '"')
}

// plainLen is how many bytes from the front are ASCII that stands for itself.
func plainLen(s string) int {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			return i
		}
	}
	return len(s)
}

// Hidden reports whether a terminal would do something else than show r.
func Hidden(r rune) bool {
	return r < 0x20 || 0x7f <= r && r < 0xa0 || // C0, DEL, C1
		r == 0x061c || r == 0x200e || r == 0x200f || // marks of direction
		0x2028 <= r && r <= 0x202e || 0x2066 <= r && r <= 0x2069 // lines; embeddings, overrides, isolates
}
