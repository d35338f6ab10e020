// Package bridge holds the bridge, an upstream HTTP filter of Redis' cluster that lets the limiter's gRPC
// stream carry plain RESP. It stands inline in the configurations of Envoy that ship.
package bridge

import _ "embed"

// Wasm is bridge.c, compiled ("make bridge").
//
//go:embed bridge.wasm
var Wasm []byte

// MaxMessageBytes is MAX_REPLIES of bridge.c: the most bytes of Redis' that one message brings. A
// message is one callback of the limiter's. 1 KB is about 20 replies.
//
// Bound: bytes of Redis' replies in one message. Beyond it, the bridge splits them into several
// messages. Protects Envoy's stack: what a callback does to many requests nests.
const MaxMessageBytes = 1024
