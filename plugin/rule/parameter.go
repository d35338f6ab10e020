package rule

import (
	"strings"

	"github.com/sluiceproxy/sluice/plugin/text"
)

// queryValue is the decoded value of the first query parameter of a name,
// appended to dst. The query is form-encoded (WHATWG URL, section 5.1).
func queryValue(dst []byte, target, name string) ([]byte, bool) {
	if i := strings.IndexByte(target, '#'); i >= 0 {
		target = target[:i]
	}
	_, query, _ := strings.Cut(target, "?")
	start := len(dst)
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		key, value, _ := strings.Cut(pair, "=")
		if pair == "" {
			continue
		}
		dst = appendDecoded(dst[:start], key, true)
		if text.View(dst[start:]) == name {
			return appendDecoded(dst[:start], value, true), true
		}
	}
	return dst[:start], false
}

// cookieValue is the decoded value of the first cookie of a name in a Cookie
// header (RFC 6265, section 5.4), appended to dst, without its quotes. What stands in
// quotes loses its backslashes first, as Python's http.cookies reads it.
func cookieValue(dst []byte, header, name string) ([]byte, bool) {
	for header != "" {
		var pair string
		pair, header, _ = strings.Cut(header, ";")
		key, value, ok := strings.Cut(pair, "=")
		if !ok || trim(key) != name {
			continue
		}
		value = trim(value)
		if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
			start := len(dst)
			dst = appendUnquoted(dst, value[1:len(value)-1])
			// What is decoded is never longer, so that it can take the place of what it is read from.
			dst, value = dst[:start], text.View(dst[start:])
		}
		return appendDecoded(dst, value, false), true
	}
	return dst, false
}

// appendUnquoted appends what stands in quotes (RFC 2109, section 4.1): \c is c, and \ooo
// the byte of three octal digits, at most \377. A backslash at the end stays.
func appendUnquoted(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c == '\\' && i+1 < len(s) {
			i++
			c = s[i]
			if octal, ok := octalByte(s[i:]); ok {
				c, i = octal, i+2
			}
		}
		dst = append(dst, c)
	}
	return dst
}

// octalByte is the byte of the three octal digits that s begins with.
func octalByte(s string) (value byte, ok bool) {
	if len(s) < 3 || s[0] > '3' {
		return 0, false
	}
	for i := range 3 {
		digit := s[i] - '0'
		if digit > 7 {
			return 0, false
		}
		value = value<<3 | digit
	}
	return value, true
}

// bearerToken is the token of the credentials in an Authorization header, if their scheme,
// in any case, is Bearer (RFC 6750, section 2.1, and RFC 9110, section 11.1) and there is
// one. It ends where no token goes on, at a blank or a comma, so that what some upstreams
// cut off makes no other identity.
func bearerToken(credentials string) (token string, ok bool) {
	const scheme = "bearer"
	if len(credentials) <= len(scheme) || !isBlank(credentials[len(scheme)]) {
		return "", false
	}
	for i := range len(scheme) {
		if credentials[i]|0x20 != scheme[i] {
			return "", false
		}
	}
	token = trim(credentials[len(scheme):])
	for i := range len(token) {
		if isBlank(token[i]) || token[i] == ',' {
			token = token[:i]
			break
		}
	}
	return token, token != ""
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
