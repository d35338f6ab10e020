package local

import (
	"encoding/binary"
	"slices"

	"github.com/sluiceproxy/sluice/algo"
)

// A State mixes two kinds of numbers: times, about 1.7e15, and counts. Both are
// written short by one rule: a number is stored either as it is or as its
// difference from the last one stored as a difference (the first two from times that
// are known), whichever is nearer to zero. So the second and later times of a log take 2 to 5 bytes instead of 8.
//
// On the wire a number is zigzag coded (as in Protocol Buffers) and cut up into
// groups of bits, lowest first, each byte's top bit saying that more follow:
//
//	first byte  more | 6 bits | is a difference
//	others      more | 7 bits
const (
	isDifference = 0x01
	moreFollow   = 0x80
	firstBits    = 6
	otherBits    = 7
)

func zigzag(v int64) uint64   { return uint64(v)<<1 ^ uint64(v>>63) }
func unzigzag(u uint64) int64 { return int64(u>>1) ^ -int64(u&1) }

// Bound: bytes of a number. Beyond it, there is no number of 64 bits. Protects the buffer of a
// state.
const maxNumberBytes = 10

// appendState appends the numbers of st. first is a time near the first of them and
// base one near the others; the reader must know both. (It writes into room made beforehand,
// because under TinyGo an append of each byte is a call. So does readState.)
func appendState(dst []byte, st algo.State, first, base int64) []byte {
	n := len(dst)
	dst = slices.Grow(dst, maxNumberBytes*len(st))
	dst = dst[:cap(dst)]
	for i, v := range st {
		from := base
		if i == 0 {
			from = first
		}
		plain, diff := zigzag(v), zigzag(v-from)
		if diff < plain {
			n = putNumber(dst, n, diff, isDifference)
			if i > 0 {
				base = v
			}
		} else {
			n = putNumber(dst, n, plain, 0)
		}
	}
	return dst[:n]
}

// putNumber writes a number at dst[n] and returns where it ends.
func putNumber(dst []byte, n int, u uint64, kind byte) int {
	dst[n] = byte(u)<<1&(moreFollow-1) | kind
	for u >>= firstBits; u > 0; u >>= otherBits {
		dst[n] |= moreFollow
		n++
		dst[n] = byte(u) &^ moreFollow
	}
	return n + 1
}

// readState returns, in the memory of st, the numbers that appendState wrote;
// none if src is malformed.
func readState(st algo.State, src []byte, first, base int64) algo.State {
	st = slices.Grow(st[:0], len(src))[:len(src)]
	count := 0
	for n := 0; n < len(src); count++ {
		last := src[n]
		kind, u := last&isDifference, uint64(last&^moreFollow)>>1
		for shift := firstBits; last&moreFollow != 0; shift += otherBits {
			if n++; n == len(src) || shift >= 64 {
				return st[:0]
			}
			last = src[n]
			u |= uint64(last&^moreFollow) << shift
		}
		n++
		v := unzigzag(u)
		switch {
		case kind != isDifference:
		case count == 0:
			v += first
		default:
			v += base
			base = v
		}
		st[count] = v
	}
	return st[:count]
}

// reader reads values off the front of rest. Reading past the end, or a
// malformed number, sets failed and yields zeros from then on.
type reader struct {
	rest   []byte
	failed bool
}

func (r *reader) uvarint() uint64 {
	u, n := binary.Uvarint(r.rest)
	if n <= 0 {
		r.rest, r.failed = nil, true
		return 0
	}
	r.rest = r.rest[n:]
	return u
}
