package ipaddr

import (
	"slices"
	"sort"
)

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
		if n := len(merged); n > 0 && r.first.compare(merged[n-1].last) <= 0 {
			if r.last.compare(merged[n-1].last) > 0 {
				merged[n-1].last = r.last
			}
			continue
		}
		merged = append(merged, r)
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
