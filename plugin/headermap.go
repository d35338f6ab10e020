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
	binary.LittleEndian.PutUint32(sizes, uint32(len(headers)))
	for i := range headers {
		for j := range headers[i] {
			text := headers[i][j]
			sizes = sizes[4:]
			binary.LittleEndian.PutUint32(sizes, uint32(len(text)))
			n := copy(data, text)
			data[n] = 0
			data = data[n+1:]
		}
	}
	return dst
}

// fields are the fields of a serialised header map that are still to be read.
type fields struct{ sizes, data []byte }

// readFields begins to read a serialised header map. One that is cut short has no fields.
func readFields(headers []byte) fields {
	count, sizes := readNumber(headers)
	if uint64(count)*8 > uint64(len(sizes)) {
		return fields{}
	}
	return fields{sizes[:count*8], sizes[count*8:]}
}

// next is the next field; ok is false after the last.
//
//go:inline
func (f *fields) next() (name, value []byte, ok bool) {
	if len(f.sizes) == 0 {
		return nil, nil, false
	}
	var nameLen, valueLen uint32
	nameLen, f.sizes = readNumber(f.sizes)
	valueLen, f.sizes = readNumber(f.sizes)
	if uint64(nameLen)+uint64(valueLen)+2 > uint64(len(f.data)) {
		return nil, nil, false
	}
	name, value = f.data[:nameLen], f.data[nameLen+1:nameLen+1+valueLen]
	f.data = f.data[nameLen+valueLen+2:]
	return name, value, true
}

// readNumber reads a number of a serialised header map: 0 at its end.
//
//go:inline
func readNumber(b []byte) (n uint32, rest []byte) {
	if len(b) < 4 {
		return 0, nil
	}
	return binary.LittleEndian.Uint32(b), b[4:]
}
