package main

// appendField appends a field of a protocol buffer message, of wire type LEN and with a number up
// to 15 (https://protobuf.dev/programming-guides/encoding/).
func appendField(dst []byte, number byte, value string) []byte {
	dst = append(dst, number<<3|2)
	n := len(value)
	for ; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	dst = append(dst, byte(n))
	return append(dst, value...)
}
