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
	padded := append([]byte(text), 0x80)                                           // section 5.1.1
	for len(padded)%blockSize != blockSize-8 {
		padded = append(padded, 0)
	}
	padded = binary.BigEndian.AppendUint64(padded, uint64(len(text))*8)
	for ; len(padded) > 0; padded = padded[blockSize:] { // section 6.1.2
		var w [80]uint32
		for i := range 16 {
			w[i] = binary.BigEndian.Uint32(padded[4*i:])
		}
		for i := 16; i < len(w); i++ {
			w[i] = bits.RotateLeft32(w[i-3]^w[i-8]^w[i-14]^w[i-16], 1)
		}
		a, b, c, d, e := state[0], state[1], state[2], state[3], state[4]
		for i, word := range w {
			f, k := b^c^d, uint32(0xca62c1d6) // sections 4.1.1 and 4.2.1
			switch i / 20 {
			case 0:
				f, k = b&c^^b&d, 0x5a827999
			case 1:
				k = 0x6ed9eba1
			case 2:
				f, k = b&c^b&d^c&d, 0x8f1bbcdc
			}
			a, b, c, d, e = bits.RotateLeft32(a, 5)+f+e+k+word, a, bits.RotateLeft32(b, 30), c, d
		}
		for i, word := range [5]uint32{a, b, c, d, e} {
			state[i] += word
		}
	}
	var sum []byte
	for _, word := range state {
		sum = binary.BigEndian.AppendUint32(sum, word)
	}
	return hex.EncodeToString(sum)
}
