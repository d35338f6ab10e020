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
// header (RFC 6265, section 5.4), appended to dst, without its quotes.
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
			value = value[1 : len(value)-1]
		}
		return appendDecoded(dst, value, false), true
	}
	return dst, false
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
