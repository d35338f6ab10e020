package main

import (
	"encoding/binary"

	"github.com/tetratelabs/proxy-wasm-go-sdk/proxywasm/types"
)

// grpcHeaderLen is the length of what gRPC puts in front of each message: a
// compression flag and the message's length, big endian
// (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md, Length-Prefixed-Message).
const grpcHeaderLen = 5

// bridge is one stream of the bridge role, an HTTP filter in front of Redis: what goes
// to Redis loses its gRPC message headers, and what comes back gets one, so that plain
// RESP is on the wire. A message is passed on as it comes: its header may state any
// length, and a peer that never sends so much costs no memory.
type bridge struct {
	types.DefaultHttpContext
	host    host
	id      uint32
	left    uint32 // bytes of the message that passes which have not come
	header  []byte // of the next message, as far as it has come
	scratch []byte
}

// OnHttpRequestBody strips the message headers.
func (b *bridge) OnHttpRequestBody(size int, _ bool) types.Action {
	if size == 0 {
		return types.ActionContinue
	}
	if uint32(size) <= b.left { // the middle of a message
		b.left -= uint32(size)
		return types.ActionContinue
	}
	if b.left == 0 && len(b.header) == 0 && wholeMessage(b.host.buffer(requestBody, 0, grpcHeaderLen), size) {
		b.host.setBuffer(requestBody, grpcHeaderLen, b.scratch[:0]) // the usual case: nothing is copied
		return types.ActionContinue
	}
	if !b.strip(b.host.buffer(requestBody, 0, uint32(size))) {
		b.host.running(b.id)
		b.host.sendResponse(b.id, 200, "sluice: a compressed message", nil, "compressed messages are not supported",
			grpcUnimplemented)
		return types.ActionPause
	}
	b.host.setBuffer(requestBody, toTheEnd, b.scratch)
	return types.ActionContinue
}

// grpcUnimplemented answers a message in a compression that the server does not know
// (https://github.com/grpc/grpc/blob/master/doc/compression.md).
const grpcUnimplemented = 12

// wholeMessage reports whether the header begins an uncompressed message that ends where
// a piece of size bytes does.
func wholeMessage(header []byte, size int) bool {
	return len(header) == grpcHeaderLen && header[0] == 0 && statedLen(header) == uint32(size-grpcHeaderLen)
}

// strip moves everything but message headers from piece to scratch. It reports false if a
// message is compressed.
func (b *bridge) strip(piece []byte) bool {
	b.scratch = b.scratch[:0]
	for {
		n := min(b.left, uint32(len(piece)))
		b.scratch, piece = append(b.scratch, piece[:n]...), piece[n:]
		b.left -= n
		if len(piece) == 0 {
			return true
		}
		missing := min(grpcHeaderLen-len(b.header), len(piece))
		b.header, piece = append(b.header, piece[:missing]...), piece[missing:]
		if b.header[0] != 0 {
			return false
		}
		if len(b.header) == grpcHeaderLen {
			b.left, b.header = statedLen(b.header), b.header[:0]
		}
	}
}

// maxMessageBytes is the most bytes of Redis' that one message brings. A message is
// one callback of the limiter's, and what a callback does to many requests nests
// in Envoy, see maxConclusions. These are about 20 replies.
//
// Bound: bytes of Redis' replies in one message. Beyond it, the bridge splits them into several
// messages. Protects Envoy's stack: what a callback does to many requests nests.
const maxMessageBytes = 1024

// OnHttpResponseBody puts a message header in front of what Redis sent, or splits it
// into several messages.
func (b *bridge) OnHttpResponseBody(size int, _ bool) types.Action {
	switch {
	case size == 0:
	case size <= maxMessageBytes: // the usual case: nothing is copied
		b.scratch = appendHeader(b.scratch[:0], size)
		b.host.setBuffer(responseBody, 0, b.scratch)
	default:
		b.scratch = b.scratch[:0]
		for rest := b.host.buffer(responseBody, 0, uint32(size)); len(rest) > 0; {
			n := min(len(rest), maxMessageBytes)
			b.scratch = append(appendHeader(b.scratch, n), rest[:n]...)
			rest = rest[n:]
		}
		b.host.setBuffer(responseBody, toTheEnd, b.scratch)
	}
	return types.ActionContinue
}

// appendHeader appends the header of a message of n bytes.
func appendHeader(dst []byte, n int) []byte {
	return binary.BigEndian.AppendUint32(append(dst, 0), uint32(n))
}

// statedLen is the length of the content that a whole message header states.
func statedLen(header []byte) uint32 {
	return binary.BigEndian.Uint32(header[1:grpcHeaderLen])
}
