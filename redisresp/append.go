package redisresp

import "math"

// AppendArray appends the head of an array of n elements. A command is an array
// of its name and its arguments, each a bulk string.
//
// https://redis.io/docs/latest/develop/reference/protocol-spec/#arrays
func AppendArray(dst []byte, n int) []byte {
	return appendHead(dst, '*', n)
}

// AppendBulk appends b as a bulk string: its length in bytes, then the bytes
// themselves, whatever they are.
//
// https://redis.io/docs/latest/develop/reference/protocol-spec/#bulk-strings
func AppendBulk(dst, b []byte) []byte {
	dst = appendHead(dst, '$', len(b))
	dst = append(dst, b...)
	return append(dst, '\r', '\n')
}

// AppendBulkString appends s as a bulk string.
func AppendBulkString(dst []byte, s string) []byte {
	dst = appendHead(dst, '$', len(s))
	dst = append(dst, s...)
	return append(dst, '\r', '\n')
}

// AppendBulkInt appends n in decimal as a bulk string, as commands take their
// numbers.
func AppendBulkInt(dst []byte, n int64) []byte {
	magnitude, sign := uint64(n), 0
	if n < 0 {
		magnitude, sign = -magnitude, 1 // also right for the smallest int64
	}
	dst = appendHead(dst, '$', sign+countDigits(magnitude))
	if n < 0 {
		dst = append(dst, '-')
	}
	dst = appendDecimal(dst, magnitude)
	return append(dst, '\r', '\n')
}

func appendHead(dst []byte, kind byte, n int) []byte {
	dst = append(dst, kind)
	dst = appendDecimal(dst, uint64(n))
	return append(dst, '\r', '\n')
}

// appendDecimal writes the digits where they belong, last one first.
// strconv.AppendInt would format into an array first, which TinyGo puts on the
// heap. A division of 64 bits is slow in Wasm: there is one for nine digits.
func appendDecimal(dst []byte, n uint64) []byte {
	const zeros = "00000000000000000000"
	dst = append(dst, zeros[:countDigits(n)]...)
	i := len(dst) - 1
	for n > math.MaxUint32 {
		low := uint32(n % 1e9)
		n /= 1e9
		for end := i - 9; i > end; i-- {
			dst[i] = byte('0' + low%10)
			low /= 10
		}
	}
	for low := uint32(n); low > 0; i-- {
		dst[i] = byte('0' + low%10)
		low /= 10
	}
	return dst
}

func countDigits(n uint64) int {
	const most = 20
	digits := 1
	for limit := uint64(10); n >= limit && digits < most; limit *= 10 {
		digits++
	}
	return digits
}
