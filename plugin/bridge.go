package main

import (
	"encoding/binary"

	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"
)

// grpcHeaderLen is the length of what gRPC puts in front of each message: a
// compression flag and the message's length, big endian
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, Length-Prefixed-Message).
const grpcHeaderLen = 5

// bridge is one stream of the bridge role, an upstream HTTP filter of the Redis
// cluster: what goes to Redis loses its gRPC message headers, and what comes
// back gets one, so that plain RESP is on the wire.
type bridge struct {
	types.DefaultHttpContext
	host    host
	partial []byte // a message that has not come whole
	frame   []byte // scratch
}

// OnHttpRequestBody strips the message headers.
func (b *bridge) OnHttpRequestBody(size int, _ bool) types.Action {
	if size == 0 {
		return types.ActionContinue
	}
	if len(b.partial) == 0 && statedLen(b.host.requestBody(0, grpcHeaderLen)) == size-grpcHeaderLen {
		b.host.dropRequestBody(grpcHeaderLen) // the usual case: one whole message, and nothing is copied
		return types.ActionContinue
	}
	b.partial = append(b.partial, b.host.requestBody(0, size)...)
	b.host.replaceRequestBody(stripped(&b.partial))
	return types.ActionContinue
}

// maxReplies is the most bytes of Redis' that one message brings. A message is
// one callback of the limiter's, and what a callback does to many requests nests
// in Envoy, see maxConclusions. These are about 20 replies.
const maxReplies = 1024

// OnHttpResponseBody puts a message header in front of what Redis sent, or splits it
// into several messages.
func (b *bridge) OnHttpResponseBody(size int, _ bool) types.Action {
	switch {
	case size == 0:
	case size <= maxReplies: // the usual case: nothing is copied
		b.frame = appendHeader(b.frame[:0], size)
		b.host.prependResponseBody(b.frame)
	default:
		b.frame = b.frame[:0]
		for rest := b.host.responseBody(0, size); len(rest) > 0; {
			n := min(len(rest), maxReplies)
			b.frame = append(appendHeader(b.frame, n), rest[:n]...)
			rest = rest[n:]
		}
		b.host.replaceResponseBody(b.frame)
	}
	return types.ActionContinue
}

// appendHeader appends the header of a message of n bytes.
func appendHeader(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(append(dst, 0), uint32(n))
}

// statedLen is the length that a message header states, or -1.
func statedLen(header []byte) int {
	if len(header) < grpcHeaderLen {
		return -1
	}
	return int(binary.BigEndian.Uint32(header[1:grpcHeaderLen]))
}

// stripped moves the whole messages' contents out of partial, and keeps the
// beginning of one that is not whole.
func stripped(partial *[]byte) (out []byte) {
	rest := *partial
	for {
		n := statedLen(rest)
		if n < 0 || n > len(rest)-grpcHeaderLen {
			break
		}
		out = append(out, rest[grpcHeaderLen:grpcHeaderLen+n]...)
		rest = rest[grpcHeaderLen+n:]
	}
	*partial = append((*partial)[:0], rest...)
	return out
}
