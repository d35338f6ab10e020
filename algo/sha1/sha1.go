// Package sha1 is SHA-1 (FIPS 180-4, https://doi.org/10.6028/NIST.FIPS.180-4), as Redis names
// scripts by it. The package of the standard library brings its FIPS 140 module along, with AES,
// SHA-3 and tests that run when a program starts: Envoy would have to compile all of it when it
// loads the plugin.
package sha1

import (
	"encoding/binary"
	"encoding/hex"
	"math/bits"
)

const blockSize = 64

// Hex is the digest of a text in lower-case hexadecimal digits.
func Hex(text string) string {
	state := [5]uint32{0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0} // section 5.3.1
	padded := pad(text)
	for ; len(padded) > 0; padded = padded[blockSize:] {
		compress(&state, padded)
	}
	var sum []byte
	for _, word := range state {
		sum = binary.BigEndian.AppendUint32(sum, word)
	}
	return hex.EncodeToString(sum)
}

// pad is the text with what makes it whole blocks (section 5.1.1).
func pad(text string) []byte {
	padded := append([]byte(text), 0x80)
	for len(padded)%blockSize != blockSize-8 {
		padded = append(padded, 0)
	}
	return binary.BigEndian.AppendUint64(padded, uint64(len(text))*8)
}

// compress hashes a block (section 6.1.2).
func compress(state *[5]uint32, block []byte) {
	var w [80]uint32
	for i := range 16 {
		w[i] = binary.BigEndian.Uint32(block[4*i:])
	}
	for i := 16; i < len(w); i++ {
		w[i] = bits.RotateLeft32(w[i-3]^w[i-8]^w[i-14]^w[i-16], 1)
	}
	a, b, c, d, e := state[0], state[1], state[2], state[3], state[4]
	for i, word := range w {
		f, k := round(i, b, c, d)
		a, b, c, d, e = bits.RotateLeft32(a, 5)+f+e+k+word, a, bits.RotateLeft32(b, 30), c, d
	}
	for i, word := range [5]uint32{a, b, c, d, e} {
		state[i] += word
	}
}

// round is the function and the constant of a round (sections 4.1.1 and 4.2.1).
func round(i int, b, c, d uint32) (f, k uint32) {
	switch i / 20 {
	case 0:
		return b&c ^ ^b&d, 0x5a827999
	case 1:
		return b ^ c ^ d, 0x6ed9eba1
	case 2:
		return b&c ^ b&d ^ c&d, 0x8f1bbcdc
	}
	return b ^ c ^ d, 0xca62c1d6
}
