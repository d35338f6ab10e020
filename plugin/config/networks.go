package config

import (
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/ipaddr"
)

// Bound: networks of one match. Beyond it, the configuration is refused. Protects memory.
const maxNetworks = 10_000

// readNetworks reads a list of addresses and networks (CIDR).
func readNetworks(v value) []ipaddr.Prefix {
	elements, _ := v.readNonEmptyList(`networks such as "10.0.0.0/8"`)
	if len(elements) > maxNetworks {
		v.mistake("there are %d networks (want at most %d)", len(elements), maxNetworks)
		return nil
	}
	networks := make([]ipaddr.Prefix, 0, len(elements))
	for _, element := range elements {
		if network, ok := readNetwork(element); ok {
			networks = append(networks, network)
		}
	}
	return networks
}

func readNetwork(v value) (network ipaddr.Prefix, ok bool) {
	text, ok := v.readText()
	if !ok {
		return network, false
	}
	address, length, isNetwork := strings.Cut(text, "/")
	addr, ok := ipaddr.Parse(address)
	if !ok {
		v.mistake(`%s is not an address or a network (want one such as "10.0.0.0/8", "2001:db8::/32", "192.0.2.7")`,
			v.shown())
		return network, false
	}
	if addr.Is4() && strings.Contains(address, ":") {
		v.mistake("%s is an IPv4 address written as IPv6 (want it as IPv4, such as %q)", v.shown(), addr.AppendTo(nil))
		return network, false
	}
	network = ipaddr.Prefix{Addr: addr, Bits: addr.Width()}
	if !isNetwork {
		return network, true
	}
	network.Bits, ok = prefixLength(length, addr.Width())
	if !ok {
		v.mistake("%s has a wrong prefix length (want 0 to %d)", v.shown(), addr.Width())
		return network, false
	}
	if first := addr.Mask(network.Bits); first != addr {
		v.mistake("%s has bits set behind its prefix (want \"%s/%d\", or the address alone)",
			v.shown(), first.AppendTo(nil), network.Bits)
		return network, false
	}
	return network, true
}

// prefixLength reads a decimal number up to width, in its one spelling.
func prefixLength(text string, width int) (int, bool) {
	bits, err := strconv.Atoi(text)
	return bits, err == nil && bits >= 0 && bits <= width && strconv.Itoa(bits) == text
}
