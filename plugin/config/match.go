package config

import (
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config/regexsize"
	"github.com/sluiceproxy/sluice/plugin/ipaddr"
	"github.com/sluiceproxy/sluice/plugin/text"
	"github.com/tidwall/gjson"
)

// Bound: networks of one match. Beyond it, the configuration is refused. Protects memory.
const maxNetworks = 10_000

// readMatch reads a match, in which every field must hold.
func readMatch(o object) (m Match) {
	if v, ok := o.field("path"); ok {
		match, at, ok := readStringMatch(v)
		if ok {
			at.checkPath(match.Op, match.Value)
		}
		m.Path = &match
	}
	if v, ok := o.field("host"); ok {
		match, at, ok := readStringMatch(v)
		if ok {
			match.Value = strings.ToLower(match.Value)
			// The colons in the brackets of an IPv6 address are none of a port.
			host := match.Value[strings.LastIndexByte(match.Value, ']')+1:]
			inBrackets := strings.HasPrefix(match.Value, "[") && len(host) == len(match.Value)
			if match.Op != Contains && !inBrackets && strings.Contains(host, ":") {
				at.mistake("%s has a port or a scheme, but hosts are compared without (want the host alone)", at.shown())
			}
		}
		m.Host = &match
	}
	// Methods are in upper case: requests are compared with them whatever theirs.
	seen := map[string]bool{}
	for _, element := range o.list("methods") {
		method, ok := element.readText()
		upper := strings.ToUpper(method)
		switch {
		case !ok:
		case !isToken(method):
			element.mistake(`%s is not a method (want one such as "GET")`, element.shown())
		case seen[upper]:
			element.mistake("%s appears twice (want it once)", element.shown())
		default:
			seen[upper] = true
			m.Methods = append(m.Methods, upper)
		}
	}
	m.Headers = readNamedMatches(o, "headers", value.checkHeaderName)
	names := map[string]bool{}
	for i := range m.Headers {
		header := &m.Headers[i]
		name := strings.ToLower(header.Name)
		if names[name] {
			at, _ := o.field("headers")
			o.r.mistake(joinPath(at.path, header.Name), headerTwice)
		}
		names[name], header.Name = true, name
	}
	m.Query = readNamedMatches(o, "query", func(field value, name string) bool {
		if name == "" {
			field.mistake(`"" is not the name of a query parameter (want one such as "preview")`)
		}
		return name != ""
	})
	m.Cookies = readNamedMatches(o, "cookies", value.checkCookieName)
	for _, element := range o.list("client_ip") {
		if network, ok := readNetwork(element); ok {
			m.ClientIP = append(m.ClientIP, network)
		}
	}
	m.Expr = get(o, "expr", readCondition)

	// A match that must not hold, or a list of them, of which none may.
	var elements []value
	switch v, has := o.field("not"); {
	case !has:
	case v.json.IsArray():
		elements = v.readList(o.row("not"))
	case v.json.IsObject():
		elements = []value{v}
	default:
		v.mistake(`%s is neither a match nor a list of matches (want one such as {"path": "/healthz"})`, v.shown())
	}
	for _, element := range elements {
		before := o.r.found
		not := readMatch(element.readObject(matchFields))
		m.Not = append(m.Not, not)
		named := not.Headers != nil || not.Query != nil || not.Cookies != nil
		matchesAll := not.Path == nil && not.Host == nil && not.Methods == nil && !named && not.ClientIP == nil &&
			not.Expr == "" && not.Not == nil
		if matchesAll && o.r.found == before {
			element.mistake(
				`matches every request, so that the rule never applies (want a condition such as {"path": "/healthz"})`,
			)
		}
	}
	return m
}

// readNamedMatches reads a matcher for each name that check accepts.
func readNamedMatches(o object, name string, check func(field value, name string) bool) (all []NamedMatch) {
	for _, field := range o.entries(name) {
		matcher, _, _ := readStringMatch(field.value)
		if check(field.value, field.name) {
			all = append(all, NamedMatch{Name: field.name, Match: matcher})
		}
	}
	return all
}

// readStringMatch reads a plain string, which is exact, or an object with one
// of ops. It also returns where the compared text stands, if there is one.
func readStringMatch(v value) (m StringMatch, at value, ok bool) {
	if v.json.Type == gjson.String {
		return StringMatch{Value: v.json.Str}, v, true
	}
	if !v.json.IsObject() {
		v.mistake("%s is not a matcher (want a string, or an object with one of %s)",
			v.shown(), quotedList(namesOf(opFields)))
		return m, v, false
	}
	name, at, ok := v.readObject(opFields).choice()
	if !ok {
		return m, v, false
	}
	m.Op = MatchOp(placeOf(opFields, name))
	switch m.Op {
	case Present:
		present, _ := at.readBoolean()
		m.Present = present == 1
		return m, at, false
	case Regex:
		if m.Value, ok = at.readNonEmpty("a regular expression"); !ok {
			return m, at, false
		}
		err := regexsize.Check(m.Value)
		bound, isBound := err.(regexsize.BoundError)
		switch {
		case isBound:
			at.mistake("%v", bound)
		case err != nil:
			at.mistake(`%s is not a regular expression: %s (want RE2 syntax, such as "^/v[0-9]+/")`,
				at.shown(), strings.TrimPrefix(err.Error(), "error parsing regexp: "))
		}
		return m, at, false
	case Exact:
		m.Value, ok = at.readText()
	default:
		m.Value, ok = at.readNonEmpty(`some text; {"present": true} matches any`)
	}
	return m, at, ok
}

// checkPath reports a text that cannot stand in a normalised path: the path of a request is
// normalised before it is compared.
//
//go:noinline
func (v value) checkPath(op MatchOp, path string) {
	atStart := op == Exact || op == Prefix
	if atStart && !strings.HasPrefix(path, "/") && path != "*" {
		v.mistake(`%s does not begin with a slash (want one such as "/api/")`, v.shown())
	}
	remedy := "it without the query"
	if !strings.ContainsAny(path, "?#") {
		reads := string(text.AppendCanonical(nil, path))
		for strings.Contains(reads, "//") {
			reads = strings.ReplaceAll(reads, "//", "/")
		}
		// A control character is cut off the end of a path.
		for at := len(reads) - len("%0A"); (op == Exact || op == Suffix) && at >= 0; at -= len("%0A") {
			if c, ok := text.Unescape(reads, at); !ok || !text.IsControl(c) {
				break
			}
			reads = reads[:at]
		}
		// A dot segment may have parameters, "..;x". A prefix may end, and a suffix begin, in the middle of a segment.
		segments := strings.Split(reads, "/")
		if op == Suffix || op == Contains {
			segments = segments[1:]
		}
		if n := len(segments); n > 0 && (op == Prefix || op == Contains) {
			segments = segments[:n-1]
		}
		dots := slices.ContainsFunc(segments, func(segment string) bool {
			name, _, _ := strings.Cut(segment, ";")
			return name == "." || name == ".."
		})
		switch {
		case dots:
			remedy = `the segments "." and ".." resolved`
		case reads != path:
			remedy = quoted(reads)
		default:
			return
		}
	}
	v.mistake("%s is not how a normalised path reads (want %s)", v.shown(), remedy)
}

// readNetwork reads an address or a network (CIDR).
func readNetwork(v value) (network ipaddr.Prefix, ok bool) {
	text, ok := v.readText()
	if !ok {
		return network, false
	}
	address, length, isNetwork := strings.Cut(text, "/")
	addr, ok := ipaddr.Parse(address)
	width := addr.Width()
	bits, err := strconv.Atoi(length)
	switch {
	case !ok:
		v.mistake(`%s is not an address or a network (want one such as "10.0.0.0/8", "2001:db8::/32", "192.0.2.7")`,
			v.shown())
	case addr.Is4() && strings.Contains(address, ":"):
		v.mistake("%s is an IPv4 address written as IPv6 (want it as IPv4, such as %q)", v.shown(), addr.AppendTo(nil))
	case !isNetwork:
		return ipaddr.Prefix{Addr: addr, Bits: width}, true
	case err != nil || bits < 0 || bits > width || strconv.Itoa(bits) != length:
		v.mistake("%s has a wrong prefix length (want 0 to %d)", v.shown(), width)
	case addr.Mask(bits) != addr:
		v.mistake("%s has bits set behind its prefix (want \"%s/%d\", or the address alone)",
			v.shown(), addr.Mask(bits).AppendTo(nil), bits)
	default:
		return ipaddr.Prefix{Addr: addr, Bits: bits}, true
	}
	return network, false
}
