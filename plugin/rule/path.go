package rule

import (
	"bytes"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/text"
)

// appendPath appends the path of a request target as upstreams read it: see the
// package's documentation. Applied to its own result it changes nothing.
func appendPath(dst []byte, target string) []byte {
	path := rawPath(target)
	// Control characters at the end go first, and escapes of them: some upstreams serve /login%0A as
	// /login, and what is left may be a dot segment.
	for path != "" {
		n, at := len(path), len(path)-1
		c := path[at]
		if n >= 3 && path[n-3] == '%' {
			if decoded, ok := text.Unescape(path, n-3); ok {
				c, at = decoded, n-3
			}
		}
		if !text.IsControl(c) {
			break
		}
		path = path[:at]
	}
	if path == "*" {
		return append(dst, path...)
	}

	root := len(dst) + 1
	dst = append(dst, '/')
	for len(path) > 0 {
		segment, rest, slash := strings.Cut(path, "/")
		path = rest
		// An empty segment and a dot segment (RFC 3986, section 5.2.4) are not appended. One with parameters,
		// "..;x", is a dot segment, too: servlet containers drop the parameters before they resolve it, and so
		// does Envoy since CVE-2026-73551.
		start := len(dst)
		dst = text.AppendCanonical(dst, segment)
		name, _, hasParameters := strings.Cut(text.View(dst[start:]), ";")
		switch {
		case name == "." || name == "" && !hasParameters || name == ".." && start == root:
			dst = dst[:start]
		case name == "..":
			dst = dst[:root+bytes.LastIndexByte(dst[root:start-1], '/')+1]
		case slash:
			dst = append(dst, '/')
		}
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
	ok = ok && scheme != ""
	for i := 0; ok && i < len(scheme); i++ { // RFC 3986, section 3.1
		c := scheme[i]
		ok = text.IsAlpha(c) || i > 0 && (text.IsDigit(c) || c == '+' || c == '-' || c == '.')
	}
	if !ok {
		return path
	}
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		return rest[i:]
	}
	return ""
}

// isPlain reports whether a target's path is written as it is read, so that every
// upstream reads it so: in its normal spelling, and without what some take for a
// slash (a backslash, an escaped slash) or cut off a segment (after a semicolon).
func isPlain(target, normal string) bool {
	if strings.IndexByte(target, '#') >= 0 || rawPath(target) != normal {
		return false
	}
	for i := range len(normal) {
		switch normal[i] {
		case '\\', ';':
			return false
		case '%':
			if c, _ := text.Unescape(normal, i); c == '/' || c == '\\' {
				return false
			}
		}
	}
	return true
}

// hasControl reports whether the request's path holds a control character or an escape of one.
// No honest client sends one, so the request is never exempt; nor is one whose path is too long
// to tell.
func (m *Matcher) hasControl() bool {
	path := rawPath(m.headerOf(pathColumn).value)
	if !m.afford(len(path) * unitsToCount) {
		return true
	}
	for i := range len(path) {
		c := path[i]
		if decoded, ok := text.Unescape(path, i); ok {
			c = decoded
		}
		if text.IsControl(c) {
			return true
		}
	}
	return false
}
