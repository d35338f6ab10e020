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

// unnormalised returns how a text reads in a normalised path, or what to change; "" if it reads as
// it is written.
func unnormalised(op MatchOp, path string) string {
	if strings.ContainsAny(path, "?#") {
		return "it without the query"
	}
	reads := string(text.AppendCanonical(nil, path))
	for strings.Contains(reads, "//") {
		reads = strings.ReplaceAll(reads, "//", "/")
	}
	for (op == Exact || op == Suffix) && endsWithControl(reads) {
		reads = reads[:len(reads)-len("%0A")]
	}
	switch {
	case hasDotSegment(op, reads):
		return `the segments "." and ".." resolved`
	case reads != path:
		return quoted(reads)
	}
	return ""
}

// endsWithControl reports whether a text ends with the escape of a control character, which is cut
// off the end of a path.
func endsWithControl(path string) bool {
	at := len(path) - len("%0A")
	if at < 0 {
		return false
	}
	c, ok := text.Unescape(path, at)
	return ok && text.IsControl(c)
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
