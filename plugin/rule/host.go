package rule

import (
	"net/netip"
	"strings"
)

// appendHost appends the host of an authority (RFC 3986, section 3.2) in lower
// case, without its port and the dots of a fully qualified name. An IPv6
// literal keeps its brackets.
func appendHost(dst []byte, authority string) []byte {
	end := strings.IndexByte(authority, ':')
	if strings.HasPrefix(authority, "[") {
		end = strings.IndexByte(authority, ']') + 1
		if end == 0 {
			end = len(authority)
		}
	}
	if end >= 0 {
		authority = authority[:end]
	}
	return appendLower(dst, strings.TrimRight(authority, "."))
}

// appendLower appends s with ASCII letters in lower case.
func appendLower(dst []byte, s string) []byte {
	for i := range len(s) {
		c := s[i]
		if 'A' <= c && c <= 'Z' {
			c |= 0x20
		}
		dst = append(dst, c)
	}
	return dst
}

// clientAddr is the address in Envoy's source.address, "ip:port" or
// "[ip]:port", without a zone, and with IPv4 in IPv6 as IPv4.
func clientAddr(source string) (netip.Addr, bool) {
	i := strings.LastIndexByte(source, ':')
	if i < 0 {
		return netip.Addr{}, false
	}
	host := strings.TrimSuffix(strings.TrimPrefix(source[:i], "["), "]")
	host, _, _ = strings.Cut(host, "%")
	addr, err := netip.ParseAddr(host)
	return addr.Unmap(), err == nil
}

// appendAddr appends addr's prefix of v4 or v6 bits in its canonical spelling:
// a whole address stands alone, a shorter prefix shows its length.
func appendAddr(dst []byte, addr netip.Addr, v4, v6 int) []byte {
	bits := v6
	if addr.Is4() {
		bits = v4
	}
	if bits == addr.BitLen() {
		return addr.AppendTo(dst)
	}
	prefix, _ := addr.Prefix(bits) // bits are checked when the configuration is read
	return prefix.AppendTo(dst)
}
