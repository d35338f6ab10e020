package main

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// requestView is a request as rules read it.
type requestView struct {
	host        host
	id          uint32 // of the request's context
	path, token []byte // scratch
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
	return v.host.property(v.id, text.View(v.path))
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

// unanswered are the response flags of requests that no upstream has answered: no
// route, no host, refused, reset, timeout, overload
// (https://github.com/envoyproxy/envoy/blob/main/envoy/stream_info/stream_info.h,
// CoreResponseFlag; the attribute has bit n for flag n).
//
//	1  NoHealthyUpstream             16  StreamIdleTimeout
//	2  UpstreamRequestTimeout        19  UpstreamMaxStreamDurationReached
//	3  LocalReset                    22  DurationTimeout
//	4  UpstreamRemoteReset           23  UpstreamProtocolError
//	5  UpstreamConnectionFailure     24  NoClusterFound
//	6  UpstreamConnectionTermination 25  OverloadManager
//	7  UpstreamOverflow              26  DnsResolutionFailed
//	8  NoRouteFound                  27  DropOverLoad
//	                                 29  UnconditionalDropOverload
const unanswered = 0xff<<1 | 1<<16 | 1<<19 | 0x3f<<22 | 1<<29

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

// appendHeaders serialises a header map as the ABI wants: how many, the length
// of each name and value, then each with a NUL after it
// (https://github.com/proxy-wasm/spec/blob/main/abi-versions/v0.2.1/README.md#serialized-map).
func appendHeaders(dst []byte, headers [][2]string) []byte {
	size := 4
	for i := range headers {
		size += 8 + len(headers[i][0]) + 1 + len(headers[i][1]) + 1
	}
	begin := len(dst)
	dst = slices.Grow(dst, size)[:begin+size]
	sizes := dst[begin:]
	data := sizes[4+8*len(headers):]
	binary.LittleEndian.PutUint32(sizes, uint32(len(headers)))
	for i := range headers {
		for j := range headers[i] {
			text := headers[i][j]
			sizes = sizes[4:]
			binary.LittleEndian.PutUint32(sizes, uint32(len(text)))
			n := copy(data, text)
			data[n] = 0
			data = data[n+1:]
		}
	}
	return dst
}

// fields are the fields of a serialised header map that are still to be read.
type fields struct{ sizes, data []byte }

// readFields begins to read a serialised header map. One that is cut short has no fields.
func readFields(headers []byte) fields {
	count, sizes := readNumber(headers)
	if uint64(count)*8 > uint64(len(sizes)) {
		return fields{}
	}
	return fields{sizes[:count*8], sizes[count*8:]}
}

// next is the next field; ok is false after the last.
//
//go:inline
func (f *fields) next() (name, value []byte, ok bool) {
	if len(f.sizes) == 0 {
		return nil, nil, false
	}
	var nameLen, valueLen uint32
	nameLen, f.sizes = readNumber(f.sizes)
	valueLen, f.sizes = readNumber(f.sizes)
	if uint64(nameLen)+uint64(valueLen)+2 > uint64(len(f.data)) {
		return nil, nil, false
	}
	name, value = f.data[:nameLen], f.data[nameLen+1:nameLen+1+valueLen]
	f.data = f.data[nameLen+valueLen+2:]
	return name, value, true
}

// readNumber reads a number of a serialised header map: 0 at its end.
//
//go:inline
func readNumber(b []byte) (n uint32, rest []byte) {
	if len(b) < 4 {
		return 0, nil
	}
	return binary.LittleEndian.Uint32(b), b[4:]
}
