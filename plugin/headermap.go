package main

import "encoding/binary"

// appendHeaders serialises a header map as the ABI wants: how many, the length
// of each name and value, then each with a NUL after it
// (https://github.com/proxy-wasm/spec/blob/main/abi-versions/v0.2.1/README.md#serialized-map).
func appendHeaders(dst []byte, headers [][2]string) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(headers)))
	for i := range headers {
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(headers[i][0])))
		dst = binary.LittleEndian.AppendUint32(dst, uint32(len(headers[i][1])))
	}
	for i := range headers {
		dst = append(append(dst, headers[i][0]...), 0)
		dst = append(append(dst, headers[i][1]...), 0)
	}
	return dst
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

// readNumber reads a number of a serialised header map: 0 if there is none.
func readNumber(b []byte) (n uint32, rest []byte) {
	if len(b) < 4 {
		return 0, nil
	}
	return binary.LittleEndian.Uint32(b), b[4:]
}
