package redisresp

import (
	"strings"
	"testing"
)

func benchmarkDecode(b *testing.B, in string) {
	d, buf := NewDecoder(Limits{}), []byte(in)
	b.ReportAllocs()
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		reply, _, outcome := d.Decode(buf)
		if outcome != Complete {
			b.Fatal(outcome)
		}
		for it := reply.Iter(); it.Next(); {
			sink += it.Reply().Int
		}
	}
}

// The reply of a check of one limit.
func BenchmarkDecodeIntegers(b *testing.B) {
	benchmarkDecode(b, "*4\r\n:1\r\n:19\r\n:1000000\r\n:0\r\n")
}

func BenchmarkDecodeBulk(b *testing.B) {
	benchmarkDecode(b, "$1000\r\n"+strings.Repeat("x", 1000)+"\r\n")
}

func BenchmarkDecodeLargest(b *testing.B) {
	benchmarkDecode(b, "*4096\r\n"+strings.Repeat(":1234567890\r\n", 4096))
}

// The same, one byte at a time.
func BenchmarkDecodeByteByByte(b *testing.B) {
	d, buf := NewDecoder(Limits{}), []byte("*4\r\n:1\r\n:19\r\n:1000000\r\n:0\r\n")
	b.ReportAllocs()
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		for size := range len(buf) + 1 {
			d.Decode(buf[:size])
		}
	}
}
