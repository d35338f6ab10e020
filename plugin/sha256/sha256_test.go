package sha256

import (
	"bytes"
	stdsha256 "crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"
)

// The examples of FIPS 180-2, appendix B, and of no bytes.
func TestSum(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ text, want string }{
		{text: "", want: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
		{text: "abc", want: "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
		{
			text: "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
			want: "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1",
		},
		{text: strings.Repeat("a", 1_000_000), want: "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"},
	} {
		h := New()
		h.Write([]byte(test.text))
		if got := hex.EncodeToString(h.AppendSum(nil)); got != test.want {
			t.Errorf("%.60q: %s, want %s", test.text, got, test.want)
		}
	}
}

// Each length up to several blocks, in two pieces, and again with the same Hash.
func TestLengths(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("0123456789abcdefg"), 20)
	h := New()
	for n := range text {
		h.Reset()
		h.Write(text[:n/3])
		h.Write(text[n/3 : n])
		want := stdsha256.Sum256(text[:n])
		if got := h.AppendSum(nil); !bytes.Equal(got, want[:]) {
			t.Errorf("%d bytes: %x, want %x", n, got, want)
		}
	}
}

// A request that hashes its client's key allocates nothing.
func TestAllocations(t *testing.T) {
	h, digest, data := New(), make([]byte, 0, Size), []byte("a client's key")
	if n := testing.AllocsPerRun(100, func() {
		h.Reset()
		h.Write(data)
		digest = h.AppendSum(digest[:0])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzSum(f *testing.F) {
	f.Add([]byte("abc"), []byte(nil))
	f.Add(make([]byte, 55), make([]byte, 9))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		h := New()
		h.Write(first)
		h.Write(second)
		want := stdsha256.Sum256(append(first[:len(first):len(first)], second...))
		if got := h.AppendSum(nil); !bytes.Equal(got, want[:]) {
			t.Errorf("%x, want %x", got, want)
		}
	})
}
