package convert

import (
	"regexp"
	"slices"
	"strings"
)

// conditions are a rule's match.
type conditions struct {
	fields object   // of the match
	nots   []object // matches, none of which may hold
}

// order is that of the fields in a match.
var order = []string{"path", "host", "methods", "headers", "query", "cookies", "client_ip", "expr"}

// named is a match of one header or query parameter; field is "headers" or "query".
func named(field, name string, matcher any) object { return object{{field, object{{name, matcher}}}} }

// set puts a field in the place of the one that is there.
func (a *conditions) set(name string, value any) { a.fields = a.fields.set(name, value) }

// and adds the conditions of b. It reports whether both fit into one match.
func (a conditions) and(b conditions) (conditions, bool) {
	for _, f := range b.fields {
		before := a.fields.get(f.name)
		if before == nil {
			a.set(f.name, f.value)
			continue
		}
		all, hasNames := before.(object)
		if !hasNames || f.name != "headers" && f.name != "query" {
			return a, false
		}
		for _, n := range f.value.(object) {
			if same := all.get(n.name); same != nil && compact(same) != compact(n.value) {
				return a, false
			}
			all = all.set(n.name, n.value)
		}
		a.set(f.name, all)
	}
	return a.but(b.nots...), true
}

// but is the conditions where further matches must not hold.
func (a conditions) but(matches ...object) conditions {
	a.nots = slices.Concat(a.nots, matches)
	return a
}

// match is the conditions as a rule's match.
func (a conditions) match() (match object) {
	for _, name := range order {
		if value := a.fields.get(name); value != nil {
			match = match.set(name, value)
		}
	}
	var nots []any
	for _, not := range a.nots {
		if !slices.ContainsFunc(nots, func(o any) bool { return compact(o) == compact(not) }) {
			nots = append(nots, not)
		}
	}
	if len(nots) == 1 {
		return match.set("not", nots[0])
	}
	if nots != nil {
		match = match.set("not", nots)
	}
	return match
}

// comparisons are the fields of Envoy's StringMatcher, each with the pattern that ignores case.
var comparisons = []struct{ name, begin, end string }{
	{"exact", "^", "$"}, {"prefix", "^", ""}, {"suffix", "", "$"}, {"contains", "", ""},
}

// stringMatch is Envoy's StringMatcher as a matcher; nil if it has no counterpart. A HeaderMatcher has
// the same fields, with "_match" behind their names.
func stringMatch(n node, behind string) any {
	ignoreCase := n.get("ignore_case").flag(false)
	for _, c := range comparisons {
		value := n.get(c.name + behind)
		switch {
		case !value.ok():
		case ignoreCase:
			return object{{"regex", "(?i)" + c.begin + regexp.QuoteMeta(value.text()) + c.end}}
		case c.name == "exact":
			return value.text()
		default:
			return object{{c.name, value.text()}}
		}
	}
	if pattern := n.get("safe_regex"+behind, "regex"); pattern.ok() {
		return whole(pattern.text())
	}
	return nil
}

// whole is a matcher for a regular expression that Envoy holds against the whole
// value.
func whole(pattern string) any { return object{{"regex", "^(?:" + pattern + ")$"}} }

func (c *converter) headerMatch(n node) (one conditions, ok bool) {
	name := strings.ToLower(n.get("name").text())
	var matcher any
	if m := n.get("string_match"); m.ok() {
		matcher = stringMatch(m, "")
	} else if present := n.get("present_match"); present.ok() {
		matcher = object{{"present", present.flag(true)}}
	} else if matcher = stringMatch(n, "_match"); matcher == nil &&
		(len(n.names()) == 1 || len(n.names()) == 2 && n.get("invert_match").ok()) { // the name alone
		matcher = object{{"present", true}}
	}
	if matcher == nil {
		c.report(Missing, n,
			"a condition on the header %q that does not compare its text (range, custom): no rule has the limit behind it", name)
		return one, false
	}
	c.reportIf(n.get("treat_missing_header_as_empty").flag(false), Differs, n,
		"a header that is absent matches nothing here but {\"present\": false}")
	switch name {
	case ":method":
		text, exact := matcher.(string)
		if !exact {
			c.report(Missing, n, "a condition on the method other than a plain comparison: no rule has the limit behind it")
			return one, false
		}
		one.set("methods", []any{text})
	case ":path":
		c.report(Differs, n, "the path is compared without its query, and as upstreams read it")
		one.set("path", matcher)
	case ":authority", "host":
		one.set("host", matcher)
	default:
		one.fields = named("headers", name, matcher)
	}
	return one.inverted(n.get("invert_match").flag(false)), true
}

// inverted is the conditions, or if so that they do not hold.
func (a conditions) inverted(so bool) conditions {
	if so {
		return conditions{nots: []object{a.match()}}
	}
	return a
}

// queryMatch is a QueryParameterMatcher. The name alone is a parameter that must be there.
func (c *converter) queryMatch(n node) (conditions, bool) {
	name := n.get("name").text()
	matcher := any(object{{"present", n.get("present_match").flag(true)}})
	if m := n.get("string_match"); m.ok() {
		if matcher = stringMatch(m, ""); matcher == nil {
			c.report(Missing, n, "a condition on the query parameter %q that does not compare its text (custom): no rule has "+
				"the limit behind it", name)
			return conditions{}, false
		}
	}
	return conditions{fields: named("query", name, matcher)}, true
}
