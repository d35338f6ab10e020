// Package ipaddr reads IP addresses and searches sets of networks. It takes the
// place of net/netip, which allocates some 25 times for each address under
// TinyGo.
package ipaddr

import (
	"slices"
	"sort"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/text"
)

// Addr is an IP address. IPv4 in IPv6 (RFC 4291 section 2.5.5.2) is IPv4.
type Addr struct {
	hi, lo uint64 // an IPv4 address is the lower half of lo
	v4     bool
}

// Is4 reports whether the address is IPv4.
func (a Addr) Is4() bool { return a.v4 }

// Width is the number of bits of an address: 32 or 128.
func (a Addr) Width() int {
	if a.v4 {
		return 32
	}
	return 128
}

// Parse reads an address without brackets and without a zone.
func Parse(s string) (Addr, bool) {
	if strings.Contains(s, ":") {
		return parseV6(s)
	}
	v4, ok := parseV4(s)
	return Addr{lo: v4, v4: true}, ok
}

// ParseSource reads Envoy's source.address, "ip:port" or "[ip]:port". The zone
// is dropped.
func ParseSource(source string) (Addr, bool) {
	if rest, ok := strings.CutPrefix(source, "["); ok {
		host, _, ok := strings.Cut(rest, "]:")
		if !ok {
			return Addr{}, false
		}
		host, _, _ = strings.Cut(host, "%")
		return parseV6(host)
	}
	host, _, port := strings.Cut(source, ":")
	v4, ok := parseV4(host)
	return Addr{lo: v4, v4: true}, ok && port
}

// parseV4 reads four decimal numbers without leading zeros.
func parseV4(s string) (addr uint64, ok bool) {
	parts, digits, n := 0, 0, uint64(0)
	for i := 0; i <= len(s); i++ {
		if i < len(s) && text.IsDigit(s[i]) {
			if digits > 0 && n == 0 {
				return 0, false
			}
			if n = n*10 + uint64(s[i]-'0'); n > 255 {
				return 0, false
			}
			digits++
			continue
		}
		if digits == 0 || parts == 4 || i < len(s) && s[i] != '.' {
			return 0, false
		}
		addr = addr<<8 | n
		parts, digits, n = parts+1, 0, 0
	}
	return addr, parts == 4
}

// parseV6 reads the text of RFC 4291, section 2.2. IPv4 in IPv6 (2.5.5.2) is
// IPv4.
func parseV6(s string) (Addr, bool) {
	var words [8]uint64
	n, gap := 0, -1 // words read, and how many of them before the ::
	if rest, ok := strings.CutPrefix(s, "::"); ok {
		s, gap = rest, 0
	}
	for s != "" {
		part, rest, colon := strings.Cut(s, ":")
		if v4, ok := parseV4(part); ok && !colon && n <= 6 {
			words[n], words[n+1] = v4>>16, v4&0xffff
			n += 2
			break
		}
		if part == "" || len(part) > 4 || n == 8 || colon && rest == "" {
			return Addr{}, false
		}
		for i := range len(part) {
			digit := text.HexValue(part[i])
			if digit > 15 {
				return Addr{}, false
			}
			words[n] = words[n]<<4 | uint64(digit)
		}
		n++
		if s = rest; strings.HasPrefix(s, ":") {
			if gap >= 0 {
				return Addr{}, false
			}
			s, gap = s[1:], n
		}
	}
	if (n == 8) != (gap < 0) {
		return Addr{}, false
	}
	var a Addr
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
	return a, true
}

// Mask keeps the first bits of an address.
func (a Addr) Mask(bits int) Addr {
	hi, lo := a.behind(bits)
	return Addr{hi: a.hi &^ hi, lo: a.lo &^ lo, v4: a.v4}
}

// behind has all bits of an address set but the first ones.
func (a Addr) behind(bits int) (hi, lo uint64) {
	switch {
	case a.v4:
		return 0, 1<<(32-bits) - 1
	case bits < 64:
		return ^uint64(0) >> bits, ^uint64(0)
	}
	return 0, ^uint64(0) >> (bits - 64)
}

// word is one of the eight words of an IPv6 address.
func (a Addr) word(i int) uint64 {
	if i < 4 {
		return a.hi >> (48 - 16*i) & 0xffff
	}
	return a.lo >> (112 - 16*i) & 0xffff
}

// AppendTo appends the canonical text: RFC 5952, section 4, for IPv6.
func (a Addr) AppendTo(dst []byte) []byte {
	if a.v4 {
		at, addr := len(dst), uint32(a.lo)
		dst = slices.Grow(dst, len("255.255.255.255"))[:at+len("255.255.255.255")] // one append for all numbers
		for shift := 24; shift >= 0; shift -= 8 {
			n := addr >> shift & 0xff
			if n > 99 {
				dst[at] = byte('0' + n/100)
				at++
			}
			if n > 9 {
				dst[at] = byte('0' + n/10%10)
				at++
			}
			dst[at] = byte('0' + n%10)
			at++
			if shift > 0 {
				dst[at] = '.'
				at++
			}
		}
		return dst[:at]
	}
	start, end := -1, 0 // the first longest run of words that are zero, of two at least
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

// Prefix is a network: the addresses whose first Bits bits are those of Addr.
type Prefix struct {
	Addr Addr // the first address
	Bits int
}

// Last is the last address of the network.
func (p Prefix) Last() Addr {
	hi, lo := p.Addr.behind(p.Bits)
	return Addr{hi: p.Addr.hi | hi, lo: p.Addr.lo | lo, v4: p.Addr.v4}
}

// compare orders addresses: IPv4 before IPv6, then by value.
func (a Addr) compare(b Addr) int {
	switch {
	case a == b:
		return 0
	case a.v4 != b.v4 && a.v4, a.v4 == b.v4 && (a.hi < b.hi || a.hi == b.hi && a.lo < b.lo):
		return -1
	}
	return 1
}

// Set is a set of addresses. Its ranges are in order and do not overlap.
type Set struct{ ranges []addrRange }

type addrRange struct{ first, last Addr }

// byFirst sorts ranges. sort.Sort is code that regexp/syntax brings along; each use of
// slices.SortFunc is another 2 to 6 KB in the .wasm.
type byFirst []addrRange

func (r byFirst) Len() int           { return len(r) }
func (r byFirst) Less(i, j int) bool { return r[i].first.compare(r[j].first) < 0 }
func (r byFirst) Swap(i, j int)      { r[i], r[j] = r[j], r[i] }

// NewSet is the set of all addresses in any of the networks.
func NewSet(networks []Prefix) *Set {
	ranges := make([]addrRange, len(networks))
	for i, network := range networks {
		ranges[i] = addrRange{network.Addr, network.Last()}
	}
	sort.Sort(byFirst(ranges))
	merged := ranges[:0]
	for _, r := range ranges {
		switch n := len(merged); {
		case n == 0 || r.first.compare(merged[n-1].last) > 0:
			merged = append(merged, r)
		case r.last.compare(merged[n-1].last) > 0:
			merged[n-1].last = r.last
		}
	}
	return &Set{ranges: slices.Clip(merged)}
}

// Contains reports whether the address is in the set, in logarithmic time.
func (s *Set) Contains(a Addr) bool {
	low, high := 0, len(s.ranges) // the first range that begins after a
	for low < high {
		middle := int(uint(low+high) >> 1)
		if s.ranges[middle].first.compare(a) <= 0 {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low > 0 && a.compare(s.ranges[low-1].last) <= 0
}
