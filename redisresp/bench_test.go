package redisresp

import (
	"strings"
	"testing"
)

const checkReply = "*4\r\n:1\r\n:19\r\n:1000000\r\n:0\r\n" // of one limit

func BenchmarkDecode(b *testing.B) {
	for name, in := range map[string]string{
		"check":   checkReply,
		"bulk":    "$1000\r\n" + strings.Repeat("x", 1000) + "\r\n",
		"largest": "*4096\r\n" + strings.Repeat(":1234567890\r\n", 4096),
	} {
		b.Run(name, func(b *testing.B) {
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
		})
	}
}

func BenchmarkDecodeByteByByte(b *testing.B) {
	d, buf := NewDecoder(Limits{}), []byte(checkReply)
	b.ReportAllocs()
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		for size := range len(buf) + 1 {
			d.Decode(buf[:size])
		}
	}
}
