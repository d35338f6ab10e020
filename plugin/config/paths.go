package config

import "strings"

// readPathMatch reads a matcher of the path. The path of a request is normalised
// before it is compared, so a text that no normalised path can hold is a mistake.
func readPathMatch(v value) *StringMatch {
	m, at, ok := readStringMatch(v)
	if !ok {
		return &m
	}
	atStart := m.Op == Exact || m.Op == Prefix
	if atStart && !strings.HasPrefix(m.Value, "/") && m.Value != "*" {
		at.mistake(`%s does not begin with a slash (want one such as "/api/")`, at.shown())
	}
	if remedy := unnormalised(m.Op, m.Value); remedy != "" {
		at.mistake("%s is not how a normalised path reads (want %s)", at.shown(), remedy)
	}
	return &m
}

// unnormalised returns what to change so that text can stand in a normalised
// path, or "" if it can.
func unnormalised(op MatchOp, text string) string {
	switch {
	case strings.ContainsAny(text, "?#"):
		return "it without the query"
	case strings.Contains(text, "//"):
		return "repeated slashes merged"
	case hasEncodedUnreserved(text):
		return `percent-encoded letters, digits, "-", ".", "_" and "~" decoded`
	case hasDotSegment(op, text):
		return `the segments "." and ".." resolved`
	}
	return ""
}

// hasDotSegment reports whether a whole segment is "." or "..". A prefix may end,
// and a suffix begin, in the middle of a segment.
func hasDotSegment(op MatchOp, text string) bool {
	segments := strings.Split(text, "/")
	first, last := 0, len(segments)
	if op == Suffix || op == Contains {
		first++
	}
	if op == Prefix || op == Contains {
		last--
	}
	for i := first; i < last; i++ {
		if segments[i] == "." || segments[i] == ".." {
			return true
		}
	}
	return false
}

// hasEncodedUnreserved reports whether an unreserved character (RFC 3986 section
// 2.3) is percent-encoded, which it never needs to be.
func hasEncodedUnreserved(text string) bool {
	for i := 0; i+2 < len(text); i++ {
		if text[i] == '%' && isHex(text[i+1]) && isHex(text[i+2]) {
			c := hexDigit(text[i+1])<<4 | hexDigit(text[i+2])
			if isDigit(c) || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || strings.IndexByte("-._~", c) >= 0 {
				return true
			}
		}
	}
	return false
}

func hexDigit(c byte) byte {
	if isDigit(c) {
		return c - '0'
	}
	return c&^0x20 - 'A' + 10
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isHex(c byte) bool {
	return isDigit(c) || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}
