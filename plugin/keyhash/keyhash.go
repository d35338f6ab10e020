// Package keyhash hashes identities for the hash tables in a worker's memory. The hash
// is keyed, so that clients cannot choose identities that all fall into one bucket. Its
// key is an argument, so that a test can run the same program twice.
package keyhash

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
)

// Key is the key of a table's hash.
type Key struct{ a, b uint64 }

// New makes the key of a seed, which differs in each worker and table.
func New(seed uint64) Key {
	draws := rand.NewPCG(seed, odd)
	return Key{draws.Uint64(), draws.Uint64()}
}

// odd is the fraction of the golden ratio, and has all its bits mixed.
const odd = 0x9e3779b97f4a7c15

// Sum is the hash of b: all 64 bits of it are good. It is the inner loop of wyhash with two
// secret words (https://github.com/wangyi-fudan/wyhash), as Go's maps use it.
//
//go:inline
func (k Key) Sum(b []byte) uint64 {
	n, h := uint64(len(b)), k.b
	for ; len(b) > 16; b = b[16:] {
		h = mix(word(b)^k.a, word(b[8:])^h)
	}
	var first, last uint64
	switch {
	case len(b) >= 8:
		first, last = word(b), word(b[len(b)-8:])
	case len(b) >= 4:
		first, last = half(b), half(b[len(b)-4:])
	case len(b) > 0:
		first = uint64(b[0])<<16 | uint64(b[len(b)/2])<<8 | uint64(b[len(b)-1])
	}
	return mix(odd^n, mix(first^k.a, last^h))
}

func word(b []byte) uint64 { return binary.LittleEndian.Uint64(b) }
func half(b []byte) uint64 { return uint64(binary.LittleEndian.Uint32(b)) }

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
