package config

import (
	"strings"

	"github.com/tidwall/gjson"
)

// readMatch reads a match, in which every field must hold.
func readMatch(o object) Match {
	return Match{
		Path:     get(o, "path", readPathMatch),
		Host:     get(o, "host", readHostMatch),
		Methods:  get(o, "methods", readMethods),
		Headers:  get(o, "headers", readHeaderMatches),
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
		m.ClientIP == nil && m.Expr == "" && m.Not == nil
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

func readHeaderMatches(v value) []HeaderMatch {
	fields, _ := v.readEntries(`an object (want one such as {"x-plan": "pro"})`)
	var all []HeaderMatch
	seen := map[string]bool{}
	for _, field := range fields {
		matcher, _, _ := readStringMatch(field.value)
		if !field.checkHeaderName(field.name) {
			continue
		}
		name := strings.ToLower(field.name)
		if seen[name] {
			field.mistake("appears twice, because header names are case-insensitive (want it once)")
		}
		seen[name] = true
		all = append(all, HeaderMatch{Name: name, Match: matcher})
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
