package main

import (
	"encoding/binary"
	"slices"
)

// appendHeaders serialises a header map as the ABI wants: how many, the length
// of each name and value, then each with a NUL after it
// (https://github.com/proxy-wasm/spec/blob/main/abi-versions/v0.2.1/README.md#serialized-map).
func appendHeaders(dst []byte, headers [][2]string) []byte {
	size := 4
	for i := range headers {
		size += 8 + len(headers[i][0]) + 1 + len(headers[i][1]) + 1
	}
	begin := len(dst)
	dst = slices.Grow(dst, size)[:begin+size]
	sizes := dst[begin:]
	data := sizes[4+8*len(headers):]
	sizes = putNumber(sizes, len(headers))
	for i := range headers {
		sizes = putNumber(sizes, len(headers[i][0]))
		sizes = putNumber(sizes, len(headers[i][1]))
		data = putString(data, headers[i][0])
		data = putString(data, headers[i][1])
	}
	return dst
}

// putNumber writes a number, and returns the rest of dst.
//
//go:inline
func putNumber(dst []byte, n int) []byte {
	binary.LittleEndian.PutUint32(dst, uint32(n))
	return dst[4:]
}

// putString writes a string and the NUL after it, and returns the rest of dst.
//
//go:inline
func putString(dst []byte, s string) []byte {
	dst[copy(dst, s)] = 0
	return dst[len(s)+1:]
}

// appendCookies appends the values of all cookie fields of a serialised header
// map, with "; " between them, and reports whether there is one.
func appendCookies(dst, headers []byte) ([]byte, bool) {
	count, sizes := readNumber(headers)
	if uint64(count)*8 > uint64(len(sizes)) {
		return dst, false
	}
	data, found := sizes[count*8:], false
	for range count {
		var nameLen, valueLen uint32
		nameLen, sizes = readNumber(sizes)
		valueLen, sizes = readNumber(sizes)
		if uint64(nameLen)+uint64(valueLen)+2 > uint64(len(data)) {
			break
		}
		value := data[nameLen+1 : nameLen+1+valueLen]
		if string(data[:nameLen]) == "cookie" {
			if found {
				dst = append(dst, "; "...)
			}
			dst, found = append(dst, value...), true
		}
		data = data[nameLen+valueLen+2:]
	}
	return dst, found
}

// readNumber reads a number of a serialised header map: 0 at its end.
func readNumber(b []byte) (n uint32, rest []byte) {
	if len(b) < 4 {
		return 0, nil
	}
	return binary.LittleEndian.Uint32(b), b[4:]
}
