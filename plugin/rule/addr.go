package rule

import (
	"strconv"

	"github.com/sluiceproxy/sluice/plugin/ipaddr"
)

// clientAddr appends the prefix of v4 or v6 bits of the address in Envoy's
// source.address, "ip:port" or "[ip]:port", in its canonical spelling: a whole
// address stands alone, a shorter prefix shows its length. The zone is dropped.
func clientAddr(dst []byte, source string, v4, v6 int) ([]byte, bool) {
	addr, ok := ipaddr.ParseSource(source)
	if !ok {
		return dst, false
	}
	bits := v6
	if addr.Is4() {
		bits = v4
	}
	dst = addr.Mask(bits).AppendTo(dst)
	if bits != addr.Width() {
		dst = append(dst, '/')
		dst = strconv.AppendInt(dst, int64(bits), 10)
	}
	return dst, true
}
