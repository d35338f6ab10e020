package rule

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/sluiceproxy/sluice/internal/testenv"
)

const none = "absent"

// addresses are sources of Envoy, and the address that is in them.
var addresses = []struct {
	source string
	v4, v6 int
	want   string
}{
	{"203.0.113.7:1234", 32, 128, "203.0.113.7"},
	{"203.0.113.7:1234", 24, 64, "203.0.113.0/24"},
	{"203.0.113.7:1234", 0, 0, "0.0.0.0/0"},
	{"255.255.255.255:1", 31, 64, "255.255.255.254/31"},
	{"[2001:db8::1]:443", 32, 128, "2001:db8::1"},
	{"[2001:DB8:0:0:0:0:0:1]:443", 32, 128, "2001:db8::1"},
	{"[2001:db8:1:2:3:4:5:6]:443", 24, 64, "2001:db8:1:2::/64"},
	{"[2001:db8:1:2ff:3:4:5:6]:443", 24, 56, "2001:db8:1:200::/56"},
	{"[2001:db8:1:2:3:4:5:6]:443", 24, 96, "2001:db8:1:2:3:4::/96"},
	{"[2001:db8::1]:443", 24, 0, "::/0"},
	{"[2001:db8:0:1:1:1:1:1]:1", 32, 128, "2001:db8:0:1:1:1:1:1"},
	{"[1:0:0:2:0:0:0:3]:1", 32, 128, "1:0:0:2::3"},
	{"[1:0:0:2:3:0:0:4]:1", 32, 128, "1::2:3:0:0:4"},
	{"[1:2:3:4:5:6:7::]:1", 32, 128, "1:2:3:4:5:6:7:0"},
	{"[::]:1", 32, 128, "::"},
	// IPv4 in IPv6 is IPv4, however it is spelled.
	{"[::ffff:203.0.113.7]:1", 32, 128, "203.0.113.7"},
	{"[::ffff:cb00:7107]:1", 24, 64, "203.0.113.0/24"},
	{"[::1.2.3.4]:1", 32, 128, "::102:304"},
	// A zone is dropped.
	{"[fe80::1%eth0]:1", 32, 128, "fe80::1"},
	// Anything else is absent.
	{"", 32, 128, none},
	{"/var/run/envoy.sock", 32, 128, none},
	{"envoy://internal/1", 32, 128, none},
	{"203.0.113.7", 32, 128, none},
	{"2001:db8::1", 32, 128, none},
	{"[2001:db8::1]", 32, 128, none},
	{"[203.0.113.7]:1", 32, 128, none},
	{"203.0.113:1", 32, 128, none},
	{"203.0.113.7.1:1", 32, 128, none},
	{"203.0.113.256:1", 32, 128, none},
	{"203.0.113.07:1", 32, 128, none},
	{"203.0.113.+7:1", 32, 128, none},
	{"[1:2:3:4:5:6:7]:1", 32, 128, none},
	{"[1:2:3:4:5:6:7:8:9]:1", 32, 128, none},
	{"[1:2:3:4:5:6:7:8::]:1", 32, 128, none},
	{"[1:2:3:4:5:6:7:1.2.3.4]:1", 32, 128, none},
	{"[1::2::3]:1", 32, 128, none},
	{"[:::]:1", 32, 128, none},
	{"[1:]:1", 32, 128, none},
	{"[:1]:1", 32, 128, none},
	{"[12345::]:1", 32, 128, none},
	{"[g::]:1", 32, 128, none},
}

// clientAddr is the identity of a client at a source of Envoy's.
func clientAddr(t *testing.T, source string, v4, v6 int) string {
	t.Helper()
	key := fmt.Sprintf(`"key": [{"client_ip": {"v4_prefix": %d, "v6_prefix": %d}, "default": %q}]`, v4, v6, none)
	list := tags(compile(t, key), get("/", "source.address", source))
	testenv.Same(t, "rules that apply", len(list), 1)
	return strings.TrimPrefix(list[0], "r|")
}

func TestClientAddr(t *testing.T) {
	t.Parallel()
	for _, tt := range addresses {
		if got := clientAddr(t, tt.source, tt.v4, tt.v6); got != tt.want {
			t.Errorf("clientAddr(%q, %d, %d) is %q, want %q", tt.source, tt.v4, tt.v6, got, tt.want)
		}
	}
}

// FuzzClientAddr holds the parser and the writer against net/netip.
func FuzzClientAddr(f *testing.F) {
	for _, s := range []string{
		"203.0.113.7", "01.2.3.4", "2001:db8::1", "::ffff:1.2.3.4", "1::8", "::", "fe80::1",
		"1:2:3:4:5:6:7::", "x",
	} {
		f.Add(s, uint8(24), uint8(64))
	}
	f.Fuzz(func(t *testing.T, host string, v4, v6 uint8) {
		if strings.ContainsAny(host, "]%") {
			return // the brackets, and the zone that netip keeps
		}
		bits4, bits6 := int(v4%33), int(v6%129)
		addr, err := netip.ParseAddr(host)
		source, bits := "["+host+"]:1", bits6
		if addr.Is4() {
			source = host + ":1"
		}
		if err == nil {
			addr = addr.Unmap()
		}
		if addr.Is4() {
			bits = bits4
		}
		want := none
		if err == nil {
			prefix, _ := addr.Prefix(bits)
			want = prefix.String()
			if prefix.IsSingleIP() {
				want = prefix.Addr().String()
			}
		}
		if got := clientAddr(t, source, bits4, bits6); got != want {
			t.Errorf("clientAddr(%q, %d, %d) is %q, want %q", source, bits4, bits6, got, want)
		}
	})
}

func TestHost(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ authority, want string }{
		{"api.example.com", "api.example.com"},
		{"API.Example.COM:8080", "api.example.com"},
		{"api.example.com:", "api.example.com"},
		{"api.example.com.", "api.example.com"},
		{"api.example.com.:443", "api.example.com"},
		{"[2001:DB8::1]", "[2001:db8::1]"},
		{"[2001:DB8::1]:8080", "[2001:db8::1]"},
		{"[2001:db8::1", "[2001:db8::1"},
		{"\xc3\x84.example:1", "\xc3\x84.example"},
		{":80", ""},
		{"", ""},
	} {
		got := string(appendHost(nil, tt.authority))
		if got != tt.want {
			t.Errorf("host of %q is %q, want %q", tt.authority, got, tt.want)
		}
		if again := string(appendHost(nil, got)); again != got {
			t.Errorf("host of %q is %q, and of that %q", tt.authority, got, again)
		}
	}
}
