package convert

import (
	"regexp"
	"slices"
	"strings"
)

// order is that of the fields in a match.
var order = []string{"path", "host", "methods", "headers", "query", "cookies", "client_ip", "expr", "not"}

// named is a match of one header or query parameter; field is "headers" or "query".
func named(field, name string, matcher any) object { return object{{field, object{{name, matcher}}}} }

// and adds the conditions of another match. It reports whether both fit into one. While a match is made, "not" is
// a list.
func (o object) and(more object) (object, bool) {
	for _, f := range more {
		before := o.get(f.name)
		switch {
		case before == nil:
			o = o.set(f.name, f.value)
		case f.name == "not":
			nots := before.([]any)
			for _, not := range f.value.([]any) {
				if !slices.ContainsFunc(nots, func(n any) bool { return compact(n) == compact(not) }) {
					nots = append(slices.Clip(nots), not)
				}
			}
			o = o.set("not", nots)
		case f.name == "headers" || f.name == "query":
			all := before.(object)
			for _, n := range f.value.(object) {
				if same := all.get(n.name); same != nil && compact(same) != compact(n.value) {
					return o, false
				}
				all = all.set(n.name, n.value)
			}
			o = o.set(f.name, all)
		default:
			return o, false
		}
	}
	return o, true
}

// both is the requests that fulfil two matches. What one match cannot say twice, such as a
// second path, is said as something whose opposite must not hold.
func (o object) both(more object) object {
	if joined, ok := o.and(more); ok {
		return joined
	}
	return o.but(object{{"not", more.match()}})
}

// but is a match where further ones must not hold.
func (o object) but(matches ...object) object {
	for _, not := range matches {
		o, _ = o.and(object{{"not", []any{not}}})
	}
	return o
}

// match is a match as a rule has it.
func (o object) match() object {
	match := slices.Clone(o)
	slices.SortFunc(match, func(a, b field) int { return slices.Index(order, a.name) - slices.Index(order, b.name) })
	if nots, _ := match.get("not").([]any); len(nots) == 1 {
		return match.set("not", nots[0])
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

func (c *converter) headerMatch(n node) (one object, ok bool) {
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
		one = object{{"methods", []any{text}}}
	case ":path":
		c.report(Differs, n, "the path is compared without its query, and as upstreams read it")
		one = object{{"path", matcher}}
	case ":authority", "host":
		one = object{{"host", matcher}}
	default:
		one = named("headers", name, matcher)
	}
	return one.inverted(n.get("invert_match").flag(false)), true
}

// inverted is a match, or if so that it does not hold.
func (o object) inverted(so bool) object {
	if so {
		return object(nil).but(o.match())
	}
	return o
}

// queryMatch is a QueryParameterMatcher. The name alone is a parameter that must be there.
func (c *converter) queryMatch(n node) (object, bool) {
	name := n.get("name").text()
	matcher := any(object{{"present", n.get("present_match").flag(true)}})
	if m := n.get("string_match"); m.ok() {
		if matcher = stringMatch(m, ""); matcher == nil {
			c.report(Missing, n, "a condition on the query parameter %q that does not compare its text (custom): no rule has "+
				"the limit behind it", name)
			return nil, false
		}
	}
	return named("query", name, matcher), true
}
