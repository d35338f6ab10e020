package sha1

import (
	stdsha1 "crypto/sha1"
	"encoding/hex"
	"strings"
	"testing"
)

// The examples of FIPS 180-2, appendix A, and of no bytes.
func TestHex(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{text: "", want: "da39a3ee5e6b4b0d3255bfef95601890afd80709"},
		{text: "abc", want: "a9993e364706816aba3e25717850c26c9cd0d89d"},
		{text: "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", want: "84983e441c3bd26ebaae4aa1f95129e5e54670f1"},
		{text: strings.Repeat("a", 1_000_000), want: "34aa973cd4c4daa4f61eeb2bdbad27316534016f"},
	} {
		if got := Hex(test.text); got != test.want {
			t.Errorf("%.60q: %s, want %s", test.text, got, test.want)
		}
	}
}

func TestLengths(t *testing.T) {
	t.Parallel()
	text := strings.Repeat("0123456789abcdefg", 20)
	for n := range text {
		if got, want := Hex(text[:n]), standard(text[:n]); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
}

func standard(text string) string {
	sum := stdsha1.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

func FuzzHex(f *testing.F) {
	f.Add("abc")
	f.Add(strings.Repeat("x", 55))
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := Hex(text), standard(text); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	})
}
