package rule

import (
	"strings"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/plugin/text"
)

// queryValue is the decoded value of the query parameter of a name, appended to dst: the first,
// or many if there are different ones. The query is form-encoded (WHATWG URL, section 5.1).
func queryValue(dst []byte, target, name string, first bool) ([]byte, state) {
	if i := strings.IndexByte(target, '#'); i >= 0 {
		target = target[:i]
	}
	_, query, _ := strings.Cut(target, "?")
	v := values{dst: dst, begin: len(dst), end: len(dst), state: absent}
	for query != "" && !v.decided(first) {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		key, value, _ := strings.Cut(pair, "=")
		if pair == "" {
			continue
		}
		if v.dst = appendDecoded(v.dst[:v.end], key, true); text.View(v.dst[v.end:]) == name {
			v.dst = appendDecoded(v.dst[:v.end], value, true)
			v.add()
		}
	}
	return v.dst[:v.end], v.state
}

// cookieValue is the decoded value of the cookie of a name in a Cookie header (RFC 6265, section
// 5.4), appended to dst, without its quotes: the first, or many if there are different ones. What
// stands in quotes loses its backslashes first, as Python's http.cookies reads it.
func cookieValue(dst []byte, header, name string, first bool) ([]byte, state) {
	v := values{dst: dst, begin: len(dst), end: len(dst), state: absent}
	for header != "" && !v.decided(first) {
		var pair string
		pair, header, _ = strings.Cut(header, ";")
		key, value, ok := strings.Cut(pair, "=")
		// Upstreams cut different kinds of white space off a name: nothing that no name of a cookie has
		// (RFC 6265, section 4.1.1) counts at its ends.
		for key != "" && !text.IsToken(key[0]) {
			key = key[1:]
		}
		for key != "" && !text.IsToken(key[len(key)-1]) {
			key = key[:len(key)-1]
		}
		if !ok || key != name {
			continue
		}
		value = trimValue(value)
		v.dst = v.dst[:v.end]
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			v.dst = appendUnquoted(v.dst, value[1:len(value)-1])
			// The decoded value is never longer than its source, so it can overwrite it.
			v.dst, value = v.dst[:v.end], text.View(v.dst[v.end:])
		}
		v.dst = appendDecoded(v.dst, value, false)
		v.add()
	}
	return v.dst[:v.end], v.state
}

// values are the values of one name that have been read so far.
type values struct {
	dst        []byte
	begin, end int // of the first value in dst
	state      state
}

// add adds the value that dst has after the first one.
func (v *values) add() {
	switch {
	case v.state == absent:
		v.end, v.state = len(v.dst), present
	case text.View(v.dst[v.begin:v.end]) != text.View(v.dst[v.end:]):
		v.state = many
	}
}

// decided reports whether no further value matters.
func (v *values) decided(first bool) bool { return v.state == many || first && v.state == present }

// trimValue cuts off both ends of a cookie's value what some upstream cuts off there: controls and
// the white space of Unicode, in UTF-8 or, where a byte belongs to no character, in Latin-1.
func trimValue(s string) string {
	for s != "" {
		r, size := utf8.DecodeRuneInString(s)
		if !isSpace(r, s[0]) {
			break
		}
		s = s[size:]
	}
	for s != "" {
		r, size := utf8.DecodeLastRuneInString(s)
		if !isSpace(r, s[len(s)-1]) {
			break
		}
		s = s[:len(s)-size]
	}
	return s
}

// isSpace reports whether r is a control or white space; b is the byte that it was if it is no
// character. (https://www.unicode.org/Public/UCD/latest/ucd/PropList.txt, White_Space)
func isSpace(r rune, b byte) bool {
	if r == utf8.RuneError {
		r = rune(b)
	}
	switch {
	case r <= ' ', r == 0x7f, r == 0x85, r == 0xa0, 0x2000 <= r && r <= 0x200a,
		r == 0x1680, r == 0x2028, r == 0x2029, r == 0x202f, r == 0x205f, r == 0x3000:
		return true
	}
	return false
}

// appendUnquoted appends what stands in quotes (RFC 2109, section 4.1): \c is c, and \ooo
// the byte of three octal digits, at most \377. A backslash at the end stays.
func appendUnquoted(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			i++
			c = s[i]
			if i+2 < len(s) && c-'0' <= 3 && s[i+1]-'0' <= 7 && s[i+2]-'0' <= 7 {
				c, i = (c-'0')<<6|(s[i+1]-'0')<<3|(s[i+2]-'0'), i+2
			}
		}
		dst = append(dst, c)
	}
	return dst
}

// bearerToken is the token in an Authorization header: the first run of token characters (RFC 6750,
// section 2.1) after the word "bearer", in any case. Upstreams look for the word in different
// places, and end the token at different bytes, so each such word counts: it is odd without a token,
// and many with different ones.
func bearerToken(credentials string) reading {
	r := reading{state: absent}
	for word, rest := nextRun(credentials); word != ""; {
		const scheme = "bearer"
		isBearer := len(word) == len(scheme)
		for i := 0; isBearer && i < len(scheme); i++ {
			isBearer = word[i]|0x20 == scheme[i]
		}
		word, rest = nextRun(rest)
		switch {
		case !isBearer:
		case word == "":
			return reading{state: odd}
		case r.state == absent:
			r = read(word, true)
		case r.value != word:
			r.state = many
		}
	}
	return r
}

// nextRun is the next run of characters of a token, "" if there is none.
func nextRun(s string) (run, rest string) {
	for s != "" && !isToken68(s[0]) {
		s = s[1:]
	}
	n := 0
	for n < len(s) && isToken68(s[n]) {
		n++
	}
	return s[:n], s[n:]
}

// isToken68 reports whether c can stand in a token (RFC 9110, section 11.2).
func isToken68(c byte) bool {
	return text.IsAlpha(c) || text.IsDigit(c) || strings.IndexByte("-._~+/=", c) >= 0
}

// appendDecoded appends s with its escapes decoded, and with plus as a space if
// form is set. A % that begins no escape stays.
func appendDecoded(dst []byte, s string, form bool) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if form && c == '+' {
			c = ' '
		}
		if decoded, ok := text.Unescape(s, i); ok {
			c, i = decoded, i+2
		}
		dst = append(dst, c)
	}
	return dst
}
