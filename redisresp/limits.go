package redisresp

// Limits bound one reply. A field that is zero takes its default.
type Limits struct {
	Bytes    int // the whole reply as sent; default 1 MiB
	Line     int // one line, without its type byte and CR LF; default 64 KiB
	Elements int // of all arrays of the reply together; default 4096
	Depth    int // of nested arrays, a flat one being 1; default 8, at most MaxDepth
}

// MaxDepth is the deepest nesting any Limits can allow.
//
// Bound: arrays in each other, whatever Limits say. Beyond it, Limits count as this. Protects
// memory.
const MaxDepth = 32

const (
	// Bound: bytes of a reply. Beyond it, the reply is an error. Protects memory.
	defaultBytes = 1 << 20
	// Bound: bytes of a line. Beyond it, the reply is an error. Protects memory.
	defaultLine = 64 << 10
	// Bound: elements of a reply's arrays. Beyond it, the reply is an error. Protects memory.
	defaultElements = 4096
	// Bound: arrays in each other. Beyond it, the reply is an error. Protects memory.
	defaultDepth = 8
)
