package redisresp

import (
	"math"
	"slices"
)

// AppendArray appends the head of an array of n elements. A command is an array
// of its name and its arguments, each a bulk string.
//
// https://redis.io/docs/latest/develop/reference/protocol-spec/#arrays
func AppendArray(dst []byte, n int) []byte {
	digits := countDigits(uint64(n))
	dst = extend(dst, len("*")+digits+len("\r\n"))
	writeHead(dst, '*', digits, n)
	return dst
}

// AppendBulk appends b as a bulk string: its length in bytes, then the bytes
// themselves, whatever they are.
//
// https://redis.io/docs/latest/develop/reference/protocol-spec/#bulk-strings
func AppendBulk(dst, b []byte) []byte {
	dst, body := appendBulk(dst, len(b))
	copy(dst[body:], b)
	return dst
}

// AppendBulkString appends s as a bulk string.
func AppendBulkString(dst []byte, s string) []byte {
	dst, body := appendBulk(dst, len(s))
	copy(dst[body:], s)
	return dst
}

// AppendBulkOf appends a bulk string of n bytes, and returns it for them to be written.
func AppendBulkOf(dst []byte, n int) (longer, body []byte) {
	dst, at := appendBulk(dst, n)
	return dst, dst[at : at+n]
}

// AppendBulkInt appends n in decimal as a bulk string, as commands take their
// numbers.
func AppendBulkInt(dst []byte, n int64) []byte {
	magnitude, sign := uint64(n), 0
	if n < 0 {
		magnitude, sign = -magnitude, 1 // also right for the smallest int64
	}
	digits := countDigits(magnitude)
	dst, body := appendBulk(dst, sign+digits)
	if n < 0 {
		dst[body] = '-'
	}
	writeDecimal(dst[body+sign:body+sign+digits], magnitude)
	return dst
}

// appendBulk appends a bulk string of n bytes, but for its body, and returns where that belongs.
// All of it has its place at once: each append is a call, and in Wasm one out of Wasm.
func appendBulk(dst []byte, n int) (longer []byte, body int) {
	digits := countDigits(uint64(n))
	body = len(dst) + len("$") + digits + len("\r\n")
	end := body + n
	dst = extend(dst, end+len("\r\n")-len(dst))
	writeHead(dst[:body], '$', digits, n)
	dst[end], dst[end+1] = '\r', '\n'
	return dst, body
}

// extend makes dst n bytes longer, which have to be written.
func extend(dst []byte, n int) []byte {
	if n > cap(dst)-len(dst) {
		dst = slices.Grow(dst, n)
	}
	return dst[:len(dst)+n]
}

// writeHead writes a head of n, which has so many digits, to the end of dst.
func writeHead(dst []byte, kind byte, digits, n int) {
	line := dst[len(dst)-digits-len(":\r\n"):]
	line[0], line[digits+1], line[digits+2] = kind, '\r', '\n'
	writeDecimal(line[1:digits+1], uint64(n))
}

// writeDecimal fills dst with the digits of n, last one first. A division of 64 bits is slow in
// Wasm: there is one for nine digits.
func writeDecimal(dst []byte, n uint64) {
	i := len(dst) - 1
	for n > math.MaxUint32 {
		low := uint32(n % 1e9)
		n /= 1e9
		for end := i - 9; i > end; i-- {
			dst[i] = byte('0' + low%10)
			low /= 10
		}
	}
	for low := uint32(n); i >= 0; i-- {
		dst[i] = byte('0' + low%10)
		low /= 10
	}
}

func countDigits(n uint64) int {
	const most = 20
	digits := 1
	for limit := uint64(10); n >= limit && digits < most; limit *= 10 {
		digits++
	}
	return digits
}
