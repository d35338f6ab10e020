// Package text has what several packages need to read and write bytes that a
// client chose: percent-encoding, hexadecimal digits, and strings without copies.
package text

import (
	"strings"
	"unsafe"
)

// View is b as a string without a copy: it changes when b does.
func View(b []byte) string {
	return unsafe.String(unsafe.SliceData(b), len(b))
}

// Equal reports whether a and b hold the same bytes. TinyGo's bytes.Equal copies both first.
func Equal(a, b []byte) bool { return View(a) == View(b) }

// Digits of hexadecimal numbers.
const (
	UpperHex = "0123456789ABCDEF"
	LowerHex = "0123456789abcdef"
)

// AppendEscape appends a byte percent-encoded (RFC 3986, section 2.1).
func AppendEscape(dst []byte, c byte) []byte {
	return append(dst, '%', UpperHex[c>>4], UpperHex[c&15])
}

// Unescape is the byte that the escape at s[i] stands for, if there is one.
func Unescape(s string, i int) (byte, bool) {
	if s[i] != '%' || len(s)-i < 3 {
		return 0, false
	}
	hi, lo := HexValue(s[i+1]), HexValue(s[i+2])
	return hi<<4 | lo&15, hi < 16 && lo < 16
}

// HexValue is the value of a hexadecimal digit, or 255.
func HexValue(c byte) byte {
	switch {
	case IsDigit(c):
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}

// AppendCanonical appends a piece of a path with escapes in their one spelling: printable ASCII is
// decoded, but for what would then mean something else; what is left has hexadecimal digits in upper
// case; a % that begins no escape and bytes that a URI cannot hold are encoded. RFC 3986, section
// 6.2.2, decodes less: routers take %3A for the colon that it stands for.
func AppendCanonical(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		run := i // what is written as it is, appended in one go
		for i < len(s) && ' ' < s[i] && s[i] < 0x7f && s[i] != '%' {
			i++
		}
		if dst = append(dst, s[run:i]...); i == len(s) {
			break
		}
		c, escaped := s[i], true
		if decoded, ok := Unescape(s, i); ok {
			c, i = decoded, i+2
			escaped = c <= ' ' || c >= 0x7f || strings.IndexByte(`/?#%;\`, c) >= 0
		}
		if escaped {
			dst = AppendEscape(dst, c)
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

// IsControl reports whether c is an ASCII control character.
func IsControl(c byte) bool { return c < ' ' || c == 0x7f }

// IsUnreserved reports whether c is in the set of RFC 3986, section 2.3.
func IsUnreserved(c byte) bool {
	return IsAlpha(c) || IsDigit(c) || c == '-' || c == '.' || c == '_' || c == '~'
}

// IsToken reports whether c is in a token (RFC 9110, section 5.6.2), such as the name of a header.
func IsToken(c byte) bool {
	return IsAlpha(c) || IsDigit(c) || strings.IndexByte("!#$%&'*+-.^_`|~", c) >= 0
}

// IsAlpha reports whether c is an ASCII letter.
func IsAlpha(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }

// IsDigit reports whether c is a decimal digit.
func IsDigit(c byte) bool { return '0' <= c && c <= '9' }

// Bytes is the bytes of s without a copy. They must not be changed.
func Bytes(s string) []byte {
	return unsafe.Slice(unsafe.StringData(s), len(s))
}

// AppendEscaped appends s with the bytes encoded that would be ambiguous in a
// key, or could not be read in a log.
func AppendEscaped(dst []byte, s string) []byte {
	done := 0 // bytes of s that are written
	for i := range len(s) {
		switch c := s[i]; {
		case c <= ' ', c == 0x7f, c == '%', c == '|', c == '{', c == '}':
			dst = AppendEscape(append(dst, s[done:i]...), c)
			done = i + 1
		}
	}
	return append(dst, s[done:]...)
}
