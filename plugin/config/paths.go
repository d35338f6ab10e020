package config

import (
	"strings"

	"github.com/sluiceproxy/sluice/plugin/text"
)

// readPathMatch reads a matcher of the path. The path of a request is normalised
// before it is compared, so a text that no normalised path can hold is a mistake.
func readPathMatch(v value) *StringMatch {
	m, at, ok := readStringMatch(v)
	if ok {
		at.checkPath(m.Op, m.Value)
	}
	return &m
}

// checkPath reports a text that cannot stand in a normalised path.
//
//go:noinline
func (v value) checkPath(op MatchOp, path string) {
	atStart := op == Exact || op == Prefix
	if atStart && !strings.HasPrefix(path, "/") && path != "*" {
		v.mistake(`%s does not begin with a slash (want one such as "/api/")`, v.shown())
	}
	if remedy := unnormalised(op, path); remedy != "" {
		v.mistake("%s is not how a normalised path reads (want %s)", v.shown(), remedy)
	}
}

// unnormalised returns what to change so that a text can stand in a normalised
// path, or "" if it can.
func unnormalised(op MatchOp, path string) string {
	switch {
	case strings.ContainsAny(path, "?#"):
		return "it without the query"
	case strings.Contains(path, "//"):
		return "repeated slashes merged"
	case hasEncodedUnreserved(path):
		return `percent-encoded letters, digits, "-", ".", "_" and "~" decoded`
	case hasDotSegment(op, path):
		return `the segments "." and ".." resolved`
	}
	return ""
}

// hasDotSegment reports whether a whole segment is "." or "..", with parameters ("..;x") or without.
// A prefix may end, and a suffix begin, in the middle of a segment.
func hasDotSegment(op MatchOp, path string) bool {
	segments := strings.Split(path, "/")
	first, last := 0, len(segments)
	if op == Suffix || op == Contains {
		first++
	}
	if op == Prefix || op == Contains {
		last--
	}
	for i := first; i < last; i++ {
		if name, _, _ := strings.Cut(segments[i], ";"); name == "." || name == ".." {
			return true
		}
	}
	return false
}

// hasEncodedUnreserved reports whether an unreserved character (RFC 3986 section
// 2.3) is percent-encoded, which it never needs to be.
func hasEncodedUnreserved(path string) bool {
	for i := range len(path) {
		if c, ok := text.Unescape(path, i); ok && text.IsUnreserved(c) {
			return true
		}
	}
	return false
}

// readHostMatch reads a matcher of the host, which is compared in lower case and
// without its port.
func readHostMatch(v value) *StringMatch {
	m, at, ok := readStringMatch(v)
	if ok {
		m.Value = strings.ToLower(m.Value)
		if hasPort(m.Op, m.Value) {
			at.mistake("%s has a port or a scheme, but hosts are compared without (want the host alone)", at.shown())
		}
	}
	return &m
}

// hasPort reports whether a host, or a part of one, has a colon outside the
// brackets of an IPv6 address.
func hasPort(op MatchOp, host string) bool {
	if op == Contains || strings.HasPrefix(host, "[") && !strings.Contains(host, "]") {
		return false
	}
	return strings.Contains(host[strings.LastIndexByte(host, ']')+1:], ":")
}
