package config

import (
	"strings"

	"github.com/tidwall/gjson"
)

// match reads a match, in which every field must hold.
func match(v value) Match {
	var m Match
	o, ok := v.object("path", "host", "methods", "headers", "not")
	if !ok {
		return m
	}
	if v, ok := o.field("path"); ok {
		m.Path = pathMatch(v)
	}
	if v, ok := o.field("host"); ok {
		m.Host = hostMatch(v)
	}
	if v, ok := o.field("methods"); ok {
		m.Methods = methods(v)
	}
	if v, ok := o.field("headers"); ok {
		m.Headers = headerMatches(v)
	}
	if v, ok := o.field("not"); ok {
		before := v.r.found
		not := match(v)
		m.Not = &not
		if not.matchesAll() && v.r.found == before {
			v.mistake(`matches every request, so that the rule never applies (want a condition such as {"path": "/healthz"})`)
		}
	}
	return m
}

func (m *Match) matchesAll() bool {
	return m.Path == nil && m.Host == nil && m.Methods == nil && m.Headers == nil && m.Not == nil
}

func methods(v value) []string {
	elements, _ := v.nonEmptyList(`methods such as "GET"`)
	var all []string
	for _, element := range elements {
		method, ok := element.text()
		switch {
		case !ok:
		case !isToken(method):
			element.mistake(`%s is not a method (want one such as "GET")`, element.shown())
		case method != strings.ToUpper(method):
			element.mistake("%s is not in upper case (want %s)", element.shown(), quoted(strings.ToUpper(method)))
		case contains(all, method):
			element.mistake("%s appears twice (want it once)", element.shown())
		default:
			all = append(all, method)
		}
	}
	return all
}

func headerMatches(v value) []HeaderMatch {
	fields, _ := v.entries(`an object (want one such as {"x-plan": "pro"})`)
	var all []HeaderMatch
	seen := map[string]bool{}
	for _, field := range fields {
		matcher := stringMatch(field.value)
		if !field.checkHeaderName(field.name) {
			continue
		}
		name := strings.ToLower(field.name)
		if seen[name] {
			field.mistake("appears twice, as header names know no case (want it once)")
		}
		seen[name] = true
		all = append(all, HeaderMatch{Name: name, Match: matcher})
	}
	return all
}

// ops are the fields of a matcher, by MatchOp.
var ops = []string{
	Exact:    "exact",
	Prefix:   "prefix",
	Suffix:   "suffix",
	Contains: "contains",
	Regex:    "regex",
	Present:  "present",
}

// stringMatch reads a plain string, which is exact, or an object with one of
// ops.
func stringMatch(v value) StringMatch {
	m, _, _ := readStringMatch(v)
	return m
}

// readStringMatch also returns where the compared text stands, if there is one.
func readStringMatch(v value) (m StringMatch, at value, ok bool) {
	if !v.json.IsObject() {
		m.Value, ok = v.matchText()
		return m, v, ok
	}
	o, ok := v.object(ops...)
	if !ok {
		return m, v, false
	}
	name, at, ok := o.oneOf(ops...)
	if !ok {
		return m, v, false
	}
	for op, n := range ops {
		if n == name {
			m.Op = MatchOp(op)
		}
	}
	switch m.Op {
	case Present:
		m.Present, _ = at.boolean()
		return m, at, false
	case Regex:
		m.Regexp, m.Value = readRegex(at)
		return m, at, false
	case Exact:
		m.Value, ok = at.text()
	default:
		m.Value, ok = at.nonEmpty(`some text; {"present": true} matches any`)
	}
	return m, at, ok
}

func (v value) matchText() (string, bool) {
	if v.json.Type != gjson.String {
		v.mistake("%s is not a matcher (want a string, or an object with one of %s)", v.shown(), quotedList(ops))
		return "", false
	}
	return v.json.Str, true
}
