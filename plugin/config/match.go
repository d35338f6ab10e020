package config

import (
	"strings"

	"github.com/sluiceproxy/sluice/plugin/config/regexsize"
	"github.com/sluiceproxy/sluice/plugin/text"
	"github.com/tidwall/gjson"
)

// readMatch reads a match, in which every field must hold.
func readMatch(o object) Match {
	return Match{
		Path:     get(o, "path", readPathMatch),
		Host:     get(o, "host", readHostMatch),
		Methods:  get(o, "methods", readMethods),
		Headers:  get(o, "headers", readHeaderMatches),
		Query:    get(o, "query", readQueryMatches),
		Cookies:  get(o, "cookies", readCookieMatches),
		ClientIP: get(o, "client_ip", readNetworks),
		Expr:     get(o, "expr", readCondition),
		Not:      get(o, "not", readNot),
	}
}

// readNot reads a match that must not hold, or a list of them, of which none may.
func readNot(v value) []Match {
	elements := []value{v}
	switch {
	case v.json.IsArray():
		elements, _ = v.readNonEmptyList(`matches such as {"path": "/healthz"}`)
	case !v.json.IsObject():
		v.mistake(`%s is neither a match nor a list of matches (want one such as {"path": "/healthz"})`, v.shown())
		return nil
	}
	all := make([]Match, len(elements))
	for i, element := range elements {
		before := v.r.found
		all[i] = readMatch(element.readObject(matchFields))
		if all[i].matchesAll() && v.r.found == before {
			element.mistake(
				`matches every request, so that the rule never applies (want a condition such as {"path": "/healthz"})`,
			)
		}
	}
	return all
}

func (m *Match) matchesAll() bool {
	return m.Path == nil && m.Host == nil && m.Methods == nil && m.Headers == nil &&
		m.Query == nil && m.Cookies == nil && m.ClientIP == nil && m.Expr == "" && m.Not == nil
}

// readMethods reads methods, in upper case: requests are compared with them whatever theirs.
func readMethods(v value) []string {
	elements, _ := v.readNonEmptyList(`methods such as "GET"`)
	var all []string
	seen := map[string]bool{}
	for _, element := range elements {
		method, ok := element.readText()
		switch {
		case !ok:
		case !isToken(method):
			element.mistake(`%s is not a method (want one such as "GET")`, element.shown())
		case seen[strings.ToUpper(method)]:
			element.mistake("%s appears twice (want it once)", element.shown())
		default:
			method = strings.ToUpper(method)
			seen[method] = true
			all = append(all, method)
		}
	}
	return all
}

func readHeaderMatches(v value) []NamedMatch {
	all := readNamedMatches(v, `an object (want one such as {"x-plan": "pro"})`, value.checkHeaderName)
	seen := map[string]bool{}
	for i := range all {
		name := strings.ToLower(all[i].Name)
		if seen[name] {
			field := located{r: v.r, path: joinPath(v.path, all[i].Name)}
			field.mistake("appears twice, because header names are case-insensitive (want it once)")
		}
		seen[name], all[i].Name = true, name
	}
	return all
}

func readQueryMatches(v value) []NamedMatch {
	return readNamedMatches(v, `an object (want one such as {"preview": {"present": true}})`, value.checkParameterName)
}

func readCookieMatches(v value) []NamedMatch {
	return readNamedMatches(v, `an object (want one such as {"plan": "pro"})`, value.checkCookieName)
}

// readNamedMatches reads a matcher for each name that check accepts.
func readNamedMatches(v value, want string, check func(field value, name string) bool) []NamedMatch {
	fields, _ := v.readEntries(want)
	var all []NamedMatch
	for _, field := range fields {
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
	if !v.json.IsObject() {
		m.Value, ok = v.readMatchText()
		return m, v, ok
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
		m.Value = readRegex(at)
		return m, at, false
	case Exact:
		m.Value, ok = at.readText()
	default:
		m.Value, ok = at.readNonEmpty(`some text; {"present": true} matches any`)
	}
	return m, at, ok
}

func (v value) readMatchText() (string, bool) {
	if v.json.Type != gjson.String {
		ops := quotedList(namesOf(opFields))
		v.mistake("%s is not a matcher (want a string, or an object with one of %s)", v.shown(), ops)
		return "", false
	}
	return v.json.Str, true
}

// readRegex reads a regular expression in RE2's syntax, which compiles.
func readRegex(v value) string {
	text, ok := v.readNonEmpty("a regular expression")
	if !ok {
		return ""
	}
	err := regexsize.Check(text)
	bound, isBound := err.(regexsize.BoundError)
	switch {
	case isBound:
		v.mistake("%v", bound)
	case err != nil:
		v.mistake(`%s is not a regular expression: %s (want RE2 syntax, such as "^/v[0-9]+/")`,
			v.shown(), strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	return text
}

// readPathMatch reads a matcher of the path. The path of a request is normalised
// before it is compared, so a text that no normalised path can hold is a mistake.
func readPathMatch(v value) *StringMatch {
	m, at, ok := readStringMatch(v)
	if ok {
		at.checkPath(m.Op, m.Value)
	}
	return &m
}

// checkPath reports a text that cannot stand in a normalised path.
//
//go:noinline
func (v value) checkPath(op MatchOp, path string) {
	atStart := op == Exact || op == Prefix
	if atStart && !strings.HasPrefix(path, "/") && path != "*" {
		v.mistake(`%s does not begin with a slash (want one such as "/api/")`, v.shown())
	}
	if remedy := unnormalised(op, path); remedy != "" {
		v.mistake("%s is not how a normalised path reads (want %s)", v.shown(), remedy)
	}
}

// unnormalised returns how a text reads in a normalised path, or what to change; "" if it reads as
// it is written.
func unnormalised(op MatchOp, path string) string {
	if strings.ContainsAny(path, "?#") {
		return "it without the query"
	}
	reads := string(text.AppendCanonical(nil, path))
	for strings.Contains(reads, "//") {
		reads = strings.ReplaceAll(reads, "//", "/")
	}
	for (op == Exact || op == Suffix) && endsWithControl(reads) {
		reads = reads[:len(reads)-len("%0A")]
	}
	switch {
	case hasDotSegment(op, reads):
		return `the segments "." and ".." resolved`
	case reads != path:
		return quoted(reads)
	}
	return ""
}

// endsWithControl reports whether a text ends with the escape of a control character, which is cut
// off the end of a path.
func endsWithControl(path string) bool {
	at := len(path) - len("%0A")
	if at < 0 {
		return false
	}
	c, ok := text.Unescape(path, at)
	return ok && text.IsControl(c)
}

// hasDotSegment reports whether a whole segment is "." or "..", with parameters ("..;x") or without.
// A prefix may end, and a suffix begin, in the middle of a segment.
func hasDotSegment(op MatchOp, path string) bool {
	segments := strings.Split(path, "/")
	first, last := 0, len(segments)
	if op == Suffix || op == Contains {
		first++
	}
	if op == Prefix || op == Contains {
		last--
	}
	for i := first; i < last; i++ {
		if name, _, _ := strings.Cut(segments[i], ";"); name == "." || name == ".." {
			return true
		}
	}
	return false
}

// readHostMatch reads a matcher of the host, which is compared in lower case and
// without its port.
func readHostMatch(v value) *StringMatch {
	m, at, ok := readStringMatch(v)
	if ok {
		m.Value = strings.ToLower(m.Value)
		if hasPort(m.Op, m.Value) {
			at.mistake("%s has a port or a scheme, but hosts are compared without (want the host alone)", at.shown())
		}
	}
	return &m
}

// hasPort reports whether a host, or a part of one, has a colon outside the
// brackets of an IPv6 address.
func hasPort(op MatchOp, host string) bool {
	if op == Contains || strings.HasPrefix(host, "[") && !strings.Contains(host, "]") {
		return false
	}
	return strings.Contains(host[strings.LastIndexByte(host, ']')+1:], ":")
}
