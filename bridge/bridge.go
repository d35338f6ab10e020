// Package bridge holds the small bridge: the bridge role of sluice.wasm alone, which stands inline in
// the configurations of Envoy that ship.
package bridge

import _ "embed"

// Wasm is bridge.c, compiled ("make bridge").
//
//go:embed bridge.wasm
var Wasm []byte
