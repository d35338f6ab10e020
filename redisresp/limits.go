package redisresp

// Limits bound one reply. A field that is zero takes its default.
type Limits struct {
	Bytes    int // the whole reply as sent; default 1 MiB
	Line     int // one line, without its type byte and CR LF; default 64 KiB
	Elements int // of all arrays of the reply together; default 4096
	Depth    int // of nested arrays, a flat one being 1; default 8, at most MaxDepth
}

// MaxDepth is the deepest nesting any Limits can allow.
const MaxDepth = 32

const (
	defaultBytes    = 1 << 20
	defaultLine     = 64 << 10
	defaultElements = 4096
	defaultDepth    = 8
)

func (l Limits) withDefaults() Limits {
	if l.Bytes == 0 {
		l.Bytes = defaultBytes
	}
	if l.Line == 0 {
		l.Line = defaultLine
	}
	if l.Elements == 0 {
		l.Elements = defaultElements
	}
	if l.Depth == 0 {
		l.Depth = defaultDepth
	}
	l.Depth = min(l.Depth, MaxDepth)
	return l
}
