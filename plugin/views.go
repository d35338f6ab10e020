package main

import (
	"encoding/binary"
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// requestView is a request as rules read it.
type requestView struct {
	host  host
	id    uint32 // of the request's context
	path  []byte // scratch
	token []byte // scratch
}

// of makes the view that of a request.
func (v *requestView) of(contextID uint32) *requestView {
	v.id = contextID
	return v
}

// Header implements rule.Request.
func (v *requestView) Header(name string) (string, bool) {
	return v.host.header(v.id, requestHeader, name)
}

// Fields implements rule.Request.
func (v *requestView) Fields(m *rule.Matcher) {
	all := readFields(v.host.requestHeaders(v.id))
	for name, value, ok := all.next(); ok; name, value, ok = all.next() {
		m.Field(text.View(name), text.View(value))
	}
}

// Evaluate implements rule.Request.
func (v *requestView) Evaluate(token uint32) ([]byte, bool) {
	v.token = binary.LittleEndian.AppendUint32(v.token[:0], token)
	return v.host.foreign(v.id, "expr_evaluate", v.token)
}

// Property implements rule.Request.
func (v *requestView) Property(path []string) ([]byte, bool) {
	v.path = v.path[:0]
	for i, p := range path {
		if i > 0 {
			v.path = append(v.path, 0)
		}
		v.path = append(v.path, p...)
	}
	return v.host.property(v.id, string(v.path))
}

// responseView is a response as rules that settle read it.
type responseView struct {
	requestView
	status int64 // unread until it was asked for
}

const unread = -1

// of makes the view that of a request's response.
func (v *responseView) of(contextID uint32) *responseView {
	v.id, v.status = contextID, unread
	return v
}

// Header implements rule.Response.
func (v *responseView) Header(name string) (string, bool) {
	return v.host.header(v.id, responseHeader, name)
}

// Status implements rule.Response. Envoy is asked once: each value that a host call
// returns is one more piece of memory in the guest.
func (v *responseView) Status() int64 {
	if v.status == unread {
		value, _ := v.Header(":status")
		v.status, _ = strconv.ParseInt(value, 10, 64)
	}
	return v.status
}

// limits returns the upstream's own limit headers if it rejected the request: its 429 is about those.
// Of each family one header is looked for, which an upstream cannot go without. Envoy says that it is
// absent for a sixth of what a value takes, such as the status.
func (v *responseView) limits(xRateLimit, draft bool) (u answer.Upstream) {
	if v.status != unread && v.status != 429 {
		return u
	}
	if xRateLimit {
		_, u.XRateLimit = v.Header("x-ratelimit-limit")
	}
	hasDraft := false
	if draft {
		u.Limit, hasDraft = v.Header("ratelimit")
	}
	switch {
	case !u.XRateLimit && !hasDraft:
	case v.Status() != 429:
		return answer.Upstream{}
	case hasDraft:
		u.Policy, _ = v.Header("ratelimit-policy")
	}
	return u
}

// unanswered are the response flags of requests that no upstream has answered: no
// route, no host, refused, reset, timeout, overload
// (https://github.com/envoyproxy/envoy/blob/main/envoy/stream_info/stream_info.h,
// CoreResponseFlag; the attribute has bit n for flag n).
const unanswered = 1<<1 | // NoHealthyUpstream
	1<<2 | // UpstreamRequestTimeout
	1<<3 | // LocalReset
	1<<4 | // UpstreamRemoteReset
	1<<5 | // UpstreamConnectionFailure
	1<<6 | // UpstreamConnectionTermination
	1<<7 | // UpstreamOverflow
	1<<8 | // NoRouteFound
	1<<16 | // StreamIdleTimeout
	1<<19 | // UpstreamMaxStreamDurationReached
	1<<22 | // DurationTimeout
	1<<23 | // UpstreamProtocolError
	1<<24 | // NoClusterFound
	1<<25 | // OverloadManager
	1<<26 | // DnsResolutionFailed
	1<<27 | // DropOverLoad
	1<<29 // UnconditionalDropOverload

// Unanswered implements rule.Response. An upstream's answer may also have such a flag: that of a
// retry that Envoy did not make because of overload.
func (v *responseView) Unanswered() bool {
	flags, _ := v.host.property(v.id, "response\x00flags")
	if len(flags) != 8 || binary.LittleEndian.Uint64(flags)&unanswered == 0 {
		return false
	}
	details, _ := v.host.property(v.id, "response\x00code_details")
	return string(details) != "via_upstream"
}
