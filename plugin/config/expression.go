package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/ipaddr"
)

// Expression is a CEL text of a configuration. Envoy compiles and evaluates it.
type Expression struct {
	Path string // such as "rules[0].match.expr"
	Text string
	Kind ExpressionKind
}

// ExpressionKind is the use of an Expression's value.
type ExpressionKind uint8

// The kinds of expressions.
const (
	BoolExpression   ExpressionKind = iota // true holds, anything else does not
	TextExpression                         // null and an error are absent
	NumberExpression                       // a negative one, NaN, infinity and an error are the default
)

// Mistake is the mistake of an expression that does not compile. The reason may
// be empty.
func (e Expression) Mistake(reason string) Mistake {
	problem := quoted(e.Text) + " is not an expression that Envoy compiles"
	if reason != "" {
		problem += ": " + reason
	}
	return Mistake{Path: e.Path, Problem: problem + ` (want CEL such as "request.method == 'POST'")`}
}

func withoutSpaces(s string) string {
	return strings.Map(func(r rune) rune {
		if strings.ContainsRune(" \t\r\n", r) {
			return -1
		}
		return r
	}, s)
}

// Bound: bytes of an expression. Beyond it, the configuration is refused. Protects Envoy's compiler
// of expressions.
const maxExpressionBytes = 4096

// readExpression reads a CEL text.
func readExpression(v value, kind ExpressionKind) string {
	text, ok := v.readText()
	switch {
	case !ok:
		return ""
	case withoutSpaces(text) == "":
		v.mistake(`the expression is empty (want CEL such as "request.method == 'POST'")`)
		return ""
	case len(text) > maxExpressionBytes:
		v.mistake("the expression has %d bytes (want at most %d)", len(text), maxExpressionBytes)
		return ""
	}
	e := Expression{Path: v.path, Text: text, Kind: kind}
	v.r.expressions = append(v.r.expressions, e)
	if err := v.r.compile(text); err != nil {
		v.mistake("%s", e.Mistake(err.Error()).Problem)
	}
	return text
}

// readCondition reads a CEL text that is true or not.
func readCondition(v value) string { return readExpression(v, BoolExpression) }

// compile asks for each text once.
func (r *reader) compile(text string) error {
	if r.checks.Expression == nil {
		return nil
	}
	err, known := r.compiled[text]
	if !known {
		err = r.checks.Expression(text)
		r.compiled[text] = err
	}
	return err
}

// checkKey reports an expression that a key must not have: the address of the
// client comes with its port.
func (v value) checkKey(expr string) {
	text := withoutSpaces(strings.ReplaceAll(expr, `"`, "'"))
	for _, wrapper := range []string{"string(", "(", ")"} {
		text = strings.ReplaceAll(text, wrapper, "")
	}
	text = strings.ReplaceAll(text, "source['address']", "source.address")
	parts := strings.FieldsFunc(text, func(r rune) bool { return r == '+' || r == '?' || r == ':' })
	if slices.Contains(parts, "source.address") {
		v.hasPort(v.shown())
	}
}

func (v value) hasPort(shown string) {
	v.mistake(`%s has the port, so that every connection would be an identity of its own (use "client_ip")`, shown)
}

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
