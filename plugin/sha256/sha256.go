// Package sha256 is SHA-256 (FIPS 180-4, https://doi.org/10.6028/NIST.FIPS.180-4). The package of
// the standard library brings its FIPS 140 module along, with AES, SHA-3 and tests that run when a
// program starts: a twelfth of what Envoy would have to compile when it loads the plugin.
package sha256

import (
	"encoding/binary"
	"math/bits"
)

// Size is the length of a digest in bytes.
const Size = 32

const blockSize = 64

// rounds are the first 32 bits of the fractional parts of the cube roots of the first 64 primes
// (section 4.2.2).
var rounds = [64]uint32{
	0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
	0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
	0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
	0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
	0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
	0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
	0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
	0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
}

// initial are the first 32 bits of the fractional parts of the square roots of the first 8 primes
// (section 5.3.3).
var initial = [8]uint32{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19}

// Hash is a digest in the making. Its methods allocate nothing.
type Hash struct {
	state  [8]uint32
	block  [blockSize]byte
	filled int    // bytes of block
	length uint64 // bytes in all
}

// New returns a Hash of no bytes.
func New() *Hash { return &Hash{state: initial} }

// Reset begins anew.
func (h *Hash) Reset() { h.state, h.filled, h.length = initial, 0, 0 }

// Write hashes more bytes.
func (h *Hash) Write(p []byte) {
	h.length += uint64(len(p))
	for len(p) > 0 {
		n := copy(h.block[h.filled:], p)
		h.filled, p = h.filled+n, p[n:]
		if h.filled == blockSize {
			h.compress()
			h.filled = 0
		}
	}
}

// AppendSum ends the hashing and appends the digest. Only Reset may follow.
func (h *Hash) AppendSum(dst []byte) []byte {
	h.block[h.filled] = 0x80
	clear(h.block[h.filled+1:])
	if h.filled >= blockSize-8 {
		h.compress()
		clear(h.block[:])
	}
	binary.BigEndian.PutUint64(h.block[blockSize-8:], h.length*8)
	h.compress()
	for _, word := range h.state {
		dst = binary.BigEndian.AppendUint32(dst, word)
	}
	return dst
}

// compress hashes a whole block (section 6.2.2).
func (h *Hash) compress() {
	var w [64]uint32
	for i := range 16 {
		w[i] = binary.BigEndian.Uint32(h.block[4*i:])
	}
	for i := 16; i < len(w); i++ {
		v2, v15 := w[i-2], w[i-15]
		s1 := bits.RotateLeft32(v2, -17) ^ bits.RotateLeft32(v2, -19) ^ v2>>10
		s0 := bits.RotateLeft32(v15, -7) ^ bits.RotateLeft32(v15, -18) ^ v15>>3
		w[i] = s1 + w[i-7] + s0 + w[i-16]
	}
	a, b, c, d, e, f, g, k := h.state[0], h.state[1], h.state[2], h.state[3], h.state[4], h.state[5],
		h.state[6], h.state[7]
	for i := range w {
		s1 := bits.RotateLeft32(e, -6) ^ bits.RotateLeft32(e, -11) ^ bits.RotateLeft32(e, -25)
		t1 := k + s1 + (e&f ^ ^e&g) + rounds[i] + w[i]
		s0 := bits.RotateLeft32(a, -2) ^ bits.RotateLeft32(a, -13) ^ bits.RotateLeft32(a, -22)
		t2 := s0 + (a&b ^ a&c ^ b&c)
		a, b, c, d, e, f, g, k = t1+t2, a, b, c, d+t1, e, f, g
	}
	for i, word := range [8]uint32{a, b, c, d, e, f, g, k} {
		h.state[i] += word
	}
}

// MAC makes the HMAC-SHA-256 of messages under one key (RFC 2104,
// https://www.rfc-editor.org/rfc/rfc2104). Its methods allocate nothing.
type MAC struct {
	inner, outer Hash // of the padded key alone
	hash         Hash
	digest       [Size]byte
}

// NewMAC returns the MAC of a key of any length.
func NewMAC(key []byte) *MAC {
	m := &MAC{inner: Hash{state: initial}, outer: Hash{state: initial}}
	if len(key) > blockSize {
		m.inner.Write(key)
		key = m.inner.AppendSum(nil)
		m.inner.Reset()
	}
	var inner, outer [blockSize]byte
	for i := range inner {
		inner[i], outer[i] = 0x36, 0x5c // ipad, opad
	}
	for i, b := range key {
		inner[i] ^= b
		outer[i] ^= b
	}
	m.inner.Write(inner[:])
	m.outer.Write(outer[:])
	return m
}

// AppendSum appends the code of a message, Size bytes.
func (m *MAC) AppendSum(dst, message []byte) []byte {
	m.hash = m.inner
	m.hash.Write(message)
	digest := m.hash.AppendSum(m.digest[:0])
	m.hash = m.outer
	m.hash.Write(digest)
	return m.hash.AppendSum(dst)
}
