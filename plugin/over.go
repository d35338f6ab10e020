package main

import "github.com/sluiceproxy/sluice/plugin/text"

// What rules with an over do to requests in Envoy. The rest is in decide/over.go.

// SetHeaders implements decide.Host. Envoy chooses the route anew.
func (l *limiter) SetHeaders(contextID uint32, headers [][2]string) {
	l.host.setHeaders(contextID, requestHeader, headers)
}

// strip takes from a request that begins the headers that some over sets: they are what Sluice
// says, not what a client does. Others are not touched, as Envoy would choose the route anew.
//
//go:inline
func (l *limiter) strip(contextID uint32) {
	if len(l.rules.OverHeaders) > 0 {
		l.stripHeaders(contextID)
	}
}

//go:noinline
func (l *limiter) stripHeaders(contextID uint32) {
	fields := readFields(l.host.requestHeaders(contextID))
	for name, _, ok := fields.next(); ok; name, _, ok = fields.next() {
		for _, of := range l.rules.OverHeaders {
			if isHeader(name, of) {
				l.host.removeRequestHeader(contextID, text.View(name))
			}
		}
	}
}

// isHeader reports whether a name is one in the spelling of config.SameHeader, for some upstream.
func isHeader(name []byte, of string) bool {
	if len(name) != len(of) {
		return false
	}
	for i, c := range name {
		if c == '_' {
			c = '-'
		}
		if c != of[i] {
			return false
		}
	}
	return true
}
