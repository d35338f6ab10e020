package rule

import (
	"encoding/binary"
	"math"
	"strconv"
	"unicode/utf8"

	"github.com/sluiceproxy/sluice/plugin/text"
)

// Bound: whole number that a double holds exactly. Beyond it, an attribute's number is absent.
// Protects identities from being mistaken for each other.
const maxDoubleWhole = 1 << 53

// appendScalar appends the text of a boolean or a whole number in the form in
// which Envoy's proxy_get_property passes it (serializeValue in
// source/extensions/common/wasm/context.cc): one byte, or 64 bits little endian
// that are an integer or a double. It reports whether value can be one. Bytes that could be
// either text or a double count as text: "ORDER09C" is also 7090004325323343. An integer
// has a byte that no text has.
func appendScalar(dst []byte, value string) ([]byte, bool) {
	switch len(value) {
	case 1:
		return strconv.AppendBool(dst, value[0] == 1), value[0] <= 1
	case 8:
		bits := binary.LittleEndian.Uint64(text.Bytes(value))
		if n := int64(bits); -maxDoubleWhole < n && n < maxDoubleWhole {
			return strconv.AppendInt(dst, n, 10), true
		}
		if f := math.Float64frombits(bits); f == math.Trunc(f) && math.Abs(f) < maxDoubleWhole && !isText(value) {
			return strconv.AppendInt(dst, int64(f), 10), true
		}
	}
	return dst, false
}

// isText reports whether s is UTF-8 without control characters.
func isText(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] == 0x7f {
			return false
		}
	}
	return utf8.ValidString(s)
}
