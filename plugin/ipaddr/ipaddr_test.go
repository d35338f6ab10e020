package ipaddr

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParseSource(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		source string
		want   string // "" for none
	}{
		{source: "203.0.113.7:1234", want: "203.0.113.7"},
		{source: "[2001:DB8::1]:443", want: "2001:db8::1"},
		{source: "[::ffff:203.0.113.7]:1", want: "203.0.113.7"},
		{source: "[fe80::1%eth0]:1", want: "fe80::1"},
		{source: "203.0.113.7", want: ""},
		{source: "2001:db8::1", want: ""},
		{source: "[2001:db8::1]", want: ""},
		{source: "envoy://internal/1", want: ""},
	} {
		t.Run(tt.source, func(t *testing.T) {
			t.Parallel()
			got := ""
			if addr, ok := ParseSource(tt.source); ok {
				got = string(addr.AppendTo(nil))
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// FuzzParse holds the parser, the mask and the writer against net/netip.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"203.0.113.7", "01.2.3.4", "256.1.1.1", "1.2.3", "2001:db8::1", "::ffff:1.2.3.4", "1::8", "::", "fe80::1",
		"1:2:3:4:5:6:7::", "x", ":::", "1::2::3",
	} {
		f.Add(s, uint8(24))
	}
	f.Fuzz(func(t *testing.T, text string, bits uint8) {
		if strings.Contains(text, "%") {
			return // netip keeps the zone
		}
		want, err := netip.ParseAddr(text)
		got, ok := Parse(text)
		if ok != (err == nil) {
			t.Fatalf("Parse(%q) is %v, %v, but netip says %v", text, got, ok, err)
		}
		if !ok {
			return
		}
		want = want.Unmap()
		prefix, err := want.Prefix(int(bits) % (got.Width() + 1))
		if err != nil {
			t.Fatal(err)
		}
		if masked := string(got.Mask(prefix.Bits()).AppendTo(nil)); masked != prefix.Addr().String() {
			t.Errorf("Parse(%q).Mask(%d) is %s, want %s", text, prefix.Bits(), masked, prefix.Addr())
		}
	})
}
