package main

// appendField appends field 1 of a protocol buffer message, of wire type LEN
// (https://protobuf.dev/programming-guides/encoding/).
func appendField(dst []byte, value string) []byte {
	dst = append(dst, 1<<3|2)
	n := len(value)
	for ; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	dst = append(dst, byte(n))
	return append(dst, value...)
}
