package celtext

import (
	"strings"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/plugin/text"
)

// unquote is the value of the literal that s begins with, and its length; 0 if it does
// not end.
func unquote(s string, raw bool) (value string, length int) {
	quote := s[:1]
	if triple := strings.Repeat(quote, 3); strings.HasPrefix(s, triple) {
		quote = triple
	}
	var b strings.Builder
	for i := len(quote); i < len(s); {
		switch {
		case strings.HasPrefix(s[i:], quote):
			return b.String(), i + len(quote)
		case len(quote) == 1 && (s[i] == '\n' || s[i] == '\r'):
			return "", 0
		case s[i] == '\\' && !raw:
			i += appendEscaped(&b, s[i:])
		default:
			b.WriteByte(s[i])
			i++
		}
	}
	return "", 0
}

// simpleEscapes are the letters after a backslash, and their meaning.
const simpleEscapes = "a\ab\bf\fn\nr\rt\tv\v\\\\??\"\"''``"

// appendEscaped appends what the escape that s begins with stands for, and returns its
// length. One that CEL does not know stays as it is: the text does not compile.
func appendEscaped(b *strings.Builder, s string) int {
	if len(s) < 2 {
		b.WriteString(s)
		return len(s)
	}
	for i := 0; i < len(simpleEscapes); i += 2 {
		if s[1] == simpleEscapes[i] {
			b.WriteByte(simpleEscapes[i+1])
			return 2
		}
	}
	digits, base := 0, rune(16)
	from := 2
	switch s[1] {
	case 'x', 'X':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	case '0', '1', '2', '3':
		digits, base, from = 3, 8, 1
	}
	r, ok := number(s[from:], digits, base)
	if !ok {
		b.WriteByte('\\')
		return 1
	}
	b.WriteRune(r)
	return from + digits
}

// number reads as many digits. There must be some, and all of them, and what they mean
// must be a character.
func number(s string, digits int, base rune) (r rune, ok bool) {
	if digits == 0 || len(s) < digits {
		return 0, false
	}
	for i := range digits {
		digit := rune(text.HexValue(s[i]))
		if digit >= base || r > utf8.MaxRune {
			return 0, false
		}
		r = r*base + digit
	}
	return r, utf8.ValidRune(r)
}
