package rule

import (
	"bytes"
	"strings"
)

// appendPath appends the path of a request target as upstreams read it: see the
// package's documentation. Applied to its own result it changes nothing.
func appendPath(dst []byte, target string) []byte {
	path := rawPath(target)
	if path == "*" {
		return append(dst, path...)
	}
	root := len(dst) + 1
	dst = append(dst, '/')
	for len(path) > 0 {
		segment, rest, slash := strings.Cut(path, "/")
		dst = appendSegment(dst, root, segment, slash)
		path = rest
	}
	return dst
}

// rawPath cuts the query and the fragment off a target, and the scheme and the
// authority off an absolute one (RFC 9112, section 3.2.2).
func rawPath(target string) string {
	if i := strings.IndexByte(target, '#'); i >= 0 {
		target = target[:i]
	}
	path, _, _ := strings.Cut(target, "?")
	if strings.HasPrefix(path, "/") {
		return path
	}
	scheme, rest, ok := strings.Cut(path, "://")
	if !ok || !isScheme(scheme) {
		return path
	}
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return ""
}

// isScheme is the grammar of RFC 3986, section 3.1.
func isScheme(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !isAlpha(c) && (i == 0 || !isDigit(c) && c != '+' && c != '-' && c != '.') {
			return false
		}
	}
	return s != ""
}

// appendSegment appends one segment to dst, which ends with a slash and whose
// segments start at root, and the slash that follows it, if any. An empty
// segment and a dot segment (RFC 3986, section 5.2.4) are not appended.
func appendSegment(dst []byte, root int, segment string, slash bool) []byte {
	start := len(dst)
	dst = appendCanonical(dst, segment)
	switch view(dst[start:]) {
	case "", ".":
		return dst[:start]
	case "..":
		if start == root {
			return dst[:start]
		}
		parent := bytes.LastIndexByte(dst[root:start-1], '/')
		return dst[:root+parent+1]
	}
	if slash {
		dst = append(dst, '/')
	}
	return dst
}

const upperHex = "0123456789ABCDEF"

// appendCanonical appends s with escapes in their one spelling (RFC 3986,
// section 6.2.2): unreserved characters decoded, hexadecimal digits in upper
// case, a % that begins no escape and bytes that a URI cannot hold encoded.
func appendCanonical(dst []byte, s string) []byte {
	for i := 0; i < len(s); i++ {
		c := s[i]
		escaped := c <= ' ' || c >= 0x7f || c == '%'
		if decoded, ok := unescape(s, i); ok {
			c, i = decoded, i+2
			escaped = !isUnreserved(c)
		}
		if escaped {
			dst = appendEscape(dst, c)
		} else {
			dst = append(dst, c)
		}
	}
	return dst
}

func appendEscape(dst []byte, c byte) []byte {
	return append(dst, '%', upperHex[c>>4], upperHex[c&15])
}

// unescape is the byte that the escape at s[i] stands for, if there is one.
func unescape(s string, i int) (byte, bool) {
	if s[i] != '%' || len(s)-i < 3 {
		return 0, false
	}
	hi, lo := fromHex(s[i+1]), fromHex(s[i+2])
	return hi<<4 | lo&15, hi < 16 && lo < 16
}

// fromHex is the value of a hexadecimal digit, or 255.
func fromHex(c byte) byte {
	switch {
	case isDigit(c):
		return c - '0'
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10
	}
	return 255
}

// isUnreserved is the set of RFC 3986, section 2.3.
func isUnreserved(c byte) bool {
	return isAlpha(c) || isDigit(c) || c == '-' || c == '.' || c == '_' || c == '~'
}

func isAlpha(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// leading is the first n segments of a normalised path, without the slash that
// follows them.
func leading(path string, n int) string {
	for i := 1; i < len(path); i++ {
		if path[i] != '/' {
			continue
		}
		if n--; n == 0 || i == len(path)-1 {
			return path[:i]
		}
	}
	return path
}
