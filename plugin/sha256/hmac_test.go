package sha256

import (
	"bytes"
	"crypto/hmac"
	gosha256 "crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// TestVectors are those of RFC 4231, sections 4.2 to 4.8, for HMAC-SHA-256.
// https://www.rfc-editor.org/rfc/rfc4231
func TestVectors(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ key, data, want string }{
		{
			strings.Repeat("\x0b", 20), "Hi There",
			"b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7",
		},
		{"Jefe", "what do ya want for nothing?", "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"},
		{
			strings.Repeat("\xaa", 20), strings.Repeat("\xdd", 50),
			"773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe",
		},
		{
			"\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13\x14\x15\x16\x17\x18\x19",
			strings.Repeat("\xcd", 50), "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b",
		},
		{strings.Repeat("\x0c", 20), "Test With Truncation", "a3b6167473100ee06e0c796c2955552b"},
		{
			strings.Repeat("\xaa", 131), "Test Using Larger Than Block-Size Key - Hash Key First",
			"60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54",
		},
		{
			strings.Repeat("\xaa", 131), "This is a test using a larger than block-size key and a larger than " +
				"block-size data. The key needs to be hashed before being used by the HMAC algorithm.",
			"9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2",
		},
	} {
		m := NewMAC([]byte(c.key))
		for range 2 { // one MAC serves many messages
			got := hex.EncodeToString(m.AppendSum(nil, []byte(c.data)))
			testenv.Same(t, c.data, got[:len(c.want)], c.want)
		}
	}
}

// TestMACAllocatesNothing holds what the request path relies on.
func TestMACAllocatesNothing(t *testing.T) {
	m, message, dst := NewMAC([]byte("key")), make([]byte, 200), make([]byte, 0, Size)
	testenv.Same(t, "allocations", testing.AllocsPerRun(10, func() { dst = m.AppendSum(dst[:0], message) }), 0)
}

// FuzzMAC compares it with the standard library's.
func FuzzMAC(f *testing.F) {
	f.Add([]byte("key"), []byte("message"))
	f.Add(make([]byte, blockSize), make([]byte, blockSize))
	f.Add(make([]byte, blockSize+1), []byte(nil))
	f.Fuzz(func(t *testing.T, key, message []byte) {
		standard := hmac.New(gosha256.New, key)
		standard.Write(message)
		if got, want := NewMAC(key).AppendSum(nil, message), standard.Sum(nil); !bytes.Equal(got, want) {
			t.Errorf("%x, want %x", got, want)
		}
	})
}
