package celtext

import (
	"strconv"
	"strings"
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

// appendEscaped appends what the escape that s begins with stands for, and returns its
// length. One that CEL does not know stays as it is: the text does not compile. CEL has the
// escapes of Go, with quotes of any kind, a question mark and a large X.
func appendEscaped(b *strings.Builder, s string) int {
	if len(s) > 1 && strings.IndexByte("?\"'`", s[1]) >= 0 {
		b.WriteByte(s[1])
		return 2
	}
	if rest, ok := strings.CutPrefix(s, `\X`); ok {
		s = `\x` + rest
	}
	r, _, rest, err := strconv.UnquoteChar(s, 0)
	if err != nil {
		b.WriteByte('\\')
		return 1
	}
	b.WriteRune(r)
	return len(s) - len(rest)
}
