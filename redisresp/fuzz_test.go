package redisresp

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

// FuzzRoundTrip builds a reply from the fuzzer's bytes, with nothing of this package, and expects the
// same reply back.
func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte("\x05\x03\x02\x07abcdefg\x02\xff\xff\xff\xff\xff\xff\xff\xff\x04"))
	f.Fuzz(func(t *testing.T, recipe []byte) {
		in, want := build(bytes.NewBuffer(recipe), 0)
		got := decode([]byte(in+"+behind\r\n"), Limits{}, len(in))
		testenv.Same(t, fmt.Sprintf("%q", in), got, result{Complete, len(in), want, SyntaxError{}})
	})
}

var noLineEnds = strings.NewReplacer("\r", "", "\n", "")

// build makes a reply that is within the default limits: on the wire, by the specification, and as show
// writes it.
func build(recipe *bytes.Buffer, depth int) (wire, shown string) {
	kind, _ := recipe.ReadByte()
	text := func() string {
		size, _ := recipe.ReadByte()
		return string(recipe.Next(int(size)))
	}
	switch kind %= 6; {
	case kind == 0:
		return "$-1\r\n", "null"
	case kind < 3:
		mark, line := "+-"[kind-1:kind], noLineEnds.Replace(text())
		return mark + line + "\r\n", mark + strconv.Quote(line)
	case kind == 3:
		var n int64
		for _, b := range recipe.Next(8) {
			n = n<<8 | int64(b)
		}
		return fmt.Sprintf(":%d\r\n", n), fmt.Sprint(n)
	case kind == 4 || depth == 8:
		bulk := text()
		return fmt.Sprintf("$%d\r\n%s\r\n", len(bulk), bulk), strconv.Quote(bulk)
	}
	var elements []string
	for range len(recipe.Next(4)) {
		element, shown := build(recipe, depth+1)
		wire, elements = wire+element, append(elements, shown)
	}
	return fmt.Sprintf("*%d\r\n%s", len(elements), wire), fmt.Sprint(elements)
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
		whole, growing := decode(in, limits, len(in)), decode(in, limits, 0)
		testenv.Same(t, "what comes byte by byte", growing, whole)
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
