package rule

import (
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/text"
)

// ipAddr is an IP address. (net/netip allocates some 25 times for each address
// under TinyGo.)
type ipAddr struct {
	hi, lo uint64 // an IPv4 address is the lower half of lo
	v4     bool
}

// clientAddr appends the prefix of v4 or v6 bits of the address in Envoy's
// source.address, "ip:port" or "[ip]:port", in its canonical spelling: a whole
// address stands alone, a shorter prefix shows its length. The zone is dropped.
func clientAddr(dst []byte, source string, v4, v6 int) ([]byte, bool) {
	addr, ok := parseSource(source)
	if !ok {
		return dst, false
	}
	bits, width := v6, 128
	if addr.v4 {
		bits, width = v4, 32
	}
	dst = addr.mask(bits).appendTo(dst)
	if bits != width {
		dst = append(dst, '/')
		dst = strconv.AppendInt(dst, int64(bits), 10)
	}
	return dst, true
}

func parseSource(source string) (ipAddr, bool) {
	if rest, ok := strings.CutPrefix(source, "["); ok {
		host, _, ok := strings.Cut(rest, "]:")
		if !ok {
			return ipAddr{}, false
		}
		host, _, _ = strings.Cut(host, "%")
		return parseIPv6(host)
	}
	host, _, port := strings.Cut(source, ":")
	addr, ok := parseIPv4(host)
	return ipAddr{lo: addr, v4: true}, ok && port
}

// parseIPv4 reads four decimal numbers without leading zeros.
func parseIPv4(s string) (addr uint64, ok bool) {
	for i := range 4 {
		part, rest, dot := strings.Cut(s, ".")
		if part == "" || len(part) > 3 || len(part) > 1 && part[0] == '0' || dot != (i < 3) {
			return 0, false
		}
		n := uint64(0)
		for j := range len(part) {
			if !text.IsDigit(part[j]) {
				return 0, false
			}
			n = n*10 + uint64(part[j]-'0')
		}
		if n > 255 {
			return 0, false
		}
		addr, s = addr<<8|n, rest
	}
	return addr, true
}

// parseIPv6 reads the text of RFC 4291, section 2.2. IPv4 in IPv6 (2.5.5.2) is
// IPv4.
func parseIPv6(s string) (ipAddr, bool) {
	var words [8]uint64
	n, gap := 0, -1 // words read, and how many of them before the ::
	if rest, ok := strings.CutPrefix(s, "::"); ok {
		s, gap = rest, 0
	}
	for s != "" {
		part, rest, colon := strings.Cut(s, ":")
		if v4, ok := parseIPv4(part); ok && !colon && n <= 6 {
			words[n], words[n+1] = v4>>16, v4&0xffff
			n += 2
			break
		}
		word, ok := parseWord(part)
		if !ok || n == 8 || colon && rest == "" {
			return ipAddr{}, false
		}
		words[n] = word
		n++
		if s = rest; strings.HasPrefix(s, ":") {
			if gap >= 0 {
				return ipAddr{}, false
			}
			s, gap = s[1:], n
		}
	}
	if (n == 8) != (gap < 0) {
		return ipAddr{}, false
	}
	return join(words, n, gap), true
}

// join makes an address of the first n words, with zeros after the first gap of
// them.
func join(words [8]uint64, n, gap int) ipAddr {
	var a ipAddr
	for i := range 8 {
		word := uint64(0)
		switch zeros := 8 - n; {
		case gap < 0 || i < gap:
			word = words[i]
		case i >= gap+zeros:
			word = words[i-zeros]
		}
		a.hi, a.lo = a.hi<<16|a.lo>>48, a.lo<<16|word
	}
	if a.hi == 0 && a.lo>>32 == 0xffff {
		a.lo, a.v4 = a.lo&0xffffffff, true
	}
	return a
}

// parseWord reads one to four hexadecimal digits.
func parseWord(s string) (word uint64, ok bool) {
	if s == "" || len(s) > 4 {
		return 0, false
	}
	for i := range len(s) {
		digit := text.HexValue(s[i])
		if digit > 15 {
			return 0, false
		}
		word = word<<4 | uint64(digit)
	}
	return word, true
}

// mask keeps the first bits of an address.
func (a ipAddr) mask(bits int) ipAddr {
	switch {
	case a.v4:
		a.lo &^= 1<<(32-bits) - 1
	case bits < 64:
		a.hi &^= ^uint64(0) >> bits
		a.lo = 0
	default:
		a.lo &^= ^uint64(0) >> (bits - 64)
	}
	return a
}

// word is one of the eight words of an IPv6 address.
func (a ipAddr) word(i int) uint64 {
	if i < 4 {
		return a.hi >> (48 - 16*i) & 0xffff
	}
	return a.lo >> (112 - 16*i) & 0xffff
}

// appendTo appends the canonical text: RFC 5952, section 4, for IPv6.
func (a ipAddr) appendTo(dst []byte) []byte {
	if a.v4 {
		for shift := 24; shift >= 0; shift -= 8 {
			dst = strconv.AppendUint(dst, a.lo>>shift&0xff, 10)
			if shift > 0 {
				dst = append(dst, '.')
			}
		}
		return dst
	}
	start, end := a.longestZeros()
	for i := 0; i < 8; i++ {
		if i == start {
			dst = append(dst, "::"...)
			if i = end; i == 8 {
				break
			}
		} else if i > 0 {
			dst = append(dst, ':')
		}
		dst = strconv.AppendUint(dst, a.word(i), 16)
	}
	return dst
}

// longestZeros is the first longest run of at least two words that are zero, or
// start -1.
func (a ipAddr) longestZeros() (start, end int) {
	start, end = -1, 0 // as long as a run that is too short
	for i := 0; i < 8; i++ {
		j := i
		for j < 8 && a.word(j) == 0 {
			j++
		}
		if j-i > end-start {
			start, end = i, j
		}
		i = max(i, j-1)
	}
	return start, end
}
