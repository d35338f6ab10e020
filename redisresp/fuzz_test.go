package redisresp

import (
	"bytes"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// FuzzRoundTrip builds a reply from the fuzzer's bytes, has an independent
// encoder write it, and expects the same reply back.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("\x05\x03\x02\x07abcdefg\x02\xff\xff\xff\xff\xff\xff\xff\xff\x04"))
	f.Fuzz(func(t *testing.T, recipe []byte) {
		want := build(&recipe, 0)
		in := []byte(want.encode())
		got := decodeWhole(append(in, "+behind\r\n"...), Limits{})
		testenv.Same(t, "the outcome", got.outcome, Complete)
		testenv.Same(t, "the length", got.n, len(in))
		if !got.reply.equal(want) {
			t.Fatalf("%q: got %+v, want %+v", in, got, want)
		}
	})
}

// build makes a tree that is within the default limits.
func build(recipe *[]byte, depth int) value {
	switch kind := take(recipe, 1); {
	case len(kind) == 0 || kind[0]%6 == 0:
		return value{Kind: Null}
	case kind[0]%6 == 1:
		return value{Kind: SimpleString, Text: line(text(recipe))}
	case kind[0]%6 == 2:
		return value{Kind: Error, Text: line(text(recipe))}
	case kind[0]%6 == 3:
		var n int64
		for _, b := range take(recipe, 8) {
			n = n<<8 | int64(b)
		}
		return value{Kind: Integer, Int: n}
	case kind[0]%6 == 4 || depth == 8:
		return value{Kind: Bulk, Text: string(text(recipe))}
	}
	v := value{Kind: Array}
	for range len(take(recipe, 4)) {
		v.Elements = append(v.Elements, build(recipe, depth+1))
	}
	return v
}

func take(recipe *[]byte, n int) []byte {
	n = min(n, len(*recipe))
	b := (*recipe)[:n]
	*recipe = (*recipe)[n:]
	return b
}

func text(recipe *[]byte) []byte {
	size := take(recipe, 1)
	if len(size) == 0 {
		return nil
	}
	return take(recipe, int(size[0]))
}

func line(b []byte) string {
	return string(bytes.Map(func(r rune) rune {
		if r == '\r' || r == '\n' {
			return -1
		}
		return r
	}, b))
}

// FuzzDecode takes any bytes. They must not make the decoder panic, read behind
// their end, allocate, or come to another result when they arrive one by one;
// and a decoder that waits for more must not wait for more than the limits allow.
func FuzzDecode(f *testing.F) {
	for _, tc := range wellFormed {
		f.Add([]byte(tc.in), uint16(1000), uint8(100), uint8(50), uint8(8))
	}
	for _, tc := range malformed {
		if len(tc.in) < 1000 {
			f.Add([]byte(tc.in), uint16(1000), uint8(100), uint8(50), uint8(8))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte, bytes uint16, line, elements, depth uint8) {
		limits := Limits{Bytes: int(bytes), Line: int(line), Elements: int(elements), Depth: int(depth)}
		in = in[:min(len(in), 4096)]
		whole, growing := decodeWhole(in, limits), decodeGrowing(in, limits)
		if !whole.equal(growing) {
			t.Fatalf("at once %+v, byte by byte %+v", whole, growing)
		}
		d := NewDecoder(limits)
		_, n, outcome := d.Decode(in)
		bound := NewDecoder(limits).limits.Bytes
		switch {
		case outcome == Complete && (n == 0 || n > len(in) || n > bound):
			t.Fatalf("a reply of %d bytes out of %d, limit %d", n, len(in), bound)
		case outcome == Incomplete && (len(in) > bound || d.at.need > bound):
			t.Fatalf("waits for byte %d after %d, limit %d", d.at.need, len(in), bound)
		case (outcome == Malformed) != (d.Err() != nil):
			t.Fatalf("%v with error %v", outcome, d.Err())
		}
	})
}
