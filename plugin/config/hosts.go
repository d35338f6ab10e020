package config

import "strings"

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
