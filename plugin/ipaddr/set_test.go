package ipaddr

import (
	"encoding/binary"
	"math/rand/v2"
	"net/netip"
	"testing"
)

func mustPrefix(t *testing.T, text string) (Prefix, netip.Prefix) {
	t.Helper()
	want, err := netip.ParsePrefix(text)
	if err != nil {
		t.Fatal(err)
	}
	addr, ok := Parse(want.Addr().String())
	if !ok {
		t.Fatalf("Parse(%s)", want.Addr())
	}
	return Prefix{Addr: addr.Mask(want.Bits()), Bits: want.Bits()}, want.Masked()
}

func TestSet(t *testing.T) {
	t.Parallel()
	var networks []Prefix
	for _, text := range []string{
		"10.0.0.0/8", "10.1.0.0/16", "192.0.2.7/32", "2001:db8::/32", "::1/128", "0.0.0.0/31",
		"255.255.255.255/32",
	} {
		network, _ := mustPrefix(t, text)
		networks = append(networks, network)
	}
	set := NewSet(networks)
	for _, tt := range []struct {
		addr string
		want bool
	}{
		{addr: "10.0.0.0", want: true},
		{addr: "10.1.2.3", want: true},
		{addr: "10.2.0.0", want: true}, // in the larger network, behind the smaller
		{addr: "10.255.255.255", want: true},
		{addr: "11.0.0.0", want: false},
		{addr: "9.255.255.255", want: false},
		{addr: "192.0.2.7", want: true},
		{addr: "192.0.2.8", want: false},
		{addr: "0.0.0.0", want: true},
		{addr: "0.0.0.2", want: false},
		{addr: "255.255.255.255", want: true},
		{addr: "2001:db8::", want: true},
		{addr: "2001:db8:ffff:ffff:ffff:ffff:ffff:ffff", want: true},
		{addr: "2001:db9::", want: false},
		{addr: "::1", want: true},
		{addr: "::", want: false},
		{addr: "::a00:1", want: false}, // 10.0.0.1 as a number
		{addr: "::ffff:10.0.0.1", want: true},
	} {
		t.Run(tt.addr, func(t *testing.T) {
			t.Parallel()
			addr, ok := Parse(tt.addr)
			if !ok {
				t.Fatal("not an address")
			}
			if got := set.Contains(addr); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	if NewSet(nil).Contains(Addr{v4: true}) {
		t.Error("the empty set contains 0.0.0.0")
	}
}

// TestSetAgainstWalk draws sets of networks that often overlap, and holds the
// search against a walk over all of them by net/netip.
func TestSetAgainstWalk(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	draw := func() netip.Addr { // of few that are close to each other
		if random.IntN(2) == 0 {
			return netip.AddrFrom4([4]byte{10, byte(random.IntN(2)), 0, byte(random.IntN(256))})
		}
		var b [16]byte
		binary.BigEndian.PutUint64(b[:], 0x20010db8_00000000|random.Uint64N(4))
		binary.BigEndian.PutUint64(b[8:], random.Uint64N(4)<<62|random.Uint64N(4))
		return netip.AddrFrom16(b)
	}
	contained := 0
	for range 300 {
		var networks []Prefix
		var walk []netip.Prefix
		for range random.IntN(20) {
			addr := draw()
			network, want := mustPrefix(t, netip.PrefixFrom(addr, addr.BitLen()-random.IntN(20)).String())
			networks, walk = append(networks, network), append(walk, want)
		}
		set := NewSet(networks)
		for range 100 {
			drawn := draw()
			want := false
			for _, p := range walk {
				want = want || p.Contains(drawn)
			}
			addr, _ := Parse(drawn.String())
			if got := set.Contains(addr); got != want {
				t.Fatalf("%v contains %s: %v, want %v", walk, drawn, got, want)
			}
			if want {
				contained++
			}
		}
	}
	if contained < 1000 {
		t.Errorf("only %d addresses were in a set", contained)
	}
}
