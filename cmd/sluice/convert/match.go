package convert

import (
	"regexp"
	"slices"
	"strings"
)

// conditions are the parts of a rule's match.
type conditions struct {
	path    any // a matcher, nil for none
	host    any
	methods []any
	headers []headerCondition
	expr    string   // that must be true; "" for none
	nots    []object // matches, none of which may hold
}

type headerCondition struct {
	name    string
	matcher any
}

// and adds the conditions of b. It reports whether both fit into one match.
func (a conditions) and(b conditions) (conditions, bool) {
	if a.path != nil && b.path != nil || a.host != nil && b.host != nil || a.methods != nil && b.methods != nil ||
		a.expr != "" && b.expr != "" {
		return a, false
	}
	if b.path != nil {
		a.path = b.path
	}
	if b.host != nil {
		a.host = b.host
	}
	if b.methods != nil {
		a.methods = b.methods
	}
	if b.expr != "" {
		a.expr = b.expr
	}
	a.headers = slices.Clone(a.headers)
	for _, h := range b.headers {
		same := func(o headerCondition) bool { return o.name == h.name }
		if i := slices.IndexFunc(a.headers, same); i >= 0 && compact(a.headers[i].matcher) != compact(h.matcher) {
			return a, false
		} else if i < 0 {
			a.headers = append(a.headers, h)
		}
	}
	a.nots = append(slices.Clone(a.nots), b.nots...)
	return a, true
}

// empty reports whether everything fulfils the conditions.
func (a conditions) empty() bool {
	return a.path == nil && a.host == nil && len(a.methods) == 0 && len(a.headers) == 0 && a.expr == "" && len(a.nots) == 0
}

// match is the conditions as a rule's match.
func (a conditions) match() (match object) {
	if a.path != nil {
		match = match.with("path", a.path)
	}
	if a.host != nil {
		match = match.with("host", a.host)
	}
	if len(a.methods) > 0 {
		match = match.with("methods", a.methods)
	}
	if len(a.headers) > 0 {
		headers := object{}
		for _, h := range a.headers {
			headers = headers.with(h.name, h.matcher)
		}
		match = match.with("headers", headers)
	}
	if a.expr != "" {
		match = match.with("expr", a.expr)
	}
	var nots []any
	for _, not := range a.nots {
		same := func(o any) bool { return compact(o) == compact(not) }
		if !slices.ContainsFunc(nots, same) {
			nots = append(nots, not)
		}
	}
	switch len(nots) {
	case 0:
	case 1:
		match = match.with("not", nots[0])
	default:
		match = match.with("not", nots)
	}
	return match
}

// asRegex writes a matcher as a regular expression that may match anywhere.
func asRegex(matcher any) (string, bool) {
	if text, ok := matcher.(string); ok {
		return "^" + regexp.QuoteMeta(text) + "$", true
	}
	o, ok := matcher.(object)
	if !ok || len(o) != 1 {
		return "", false
	}
	text, ok := o[0].value.(string)
	if !ok {
		return "", false
	}
	switch o[0].name {
	case "exact":
		return "^" + regexp.QuoteMeta(text) + "$", true
	case "prefix":
		return "^" + regexp.QuoteMeta(text), true
	case "suffix":
		return regexp.QuoteMeta(text) + "$", true
	case "contains":
		return regexp.QuoteMeta(text), true
	case "regex":
		return "(?:" + text + ")", true
	}
	return "", false
}

// stringMatch is Envoy's StringMatcher as a matcher; nil if it has no
// counterpart.
func stringMatch(n node) any {
	ignoreCase := n.get("ignore_case").flag(false)
	for _, op := range []string{"exact", "prefix", "suffix", "contains"} {
		value := n.get(op)
		if !value.ok() {
			continue
		}
		matcher := any(object{{op, value.text()}})
		if op == "exact" {
			matcher = value.text()
		}
		if !ignoreCase {
			return matcher
		}
		pattern, _ := asRegex(matcher)
		return object{{"regex", "(?i)" + pattern}}
	}
	if pattern := n.get("safe_regex", "regex"); pattern.ok() {
		return whole(pattern.text())
	}
	return nil
}

// whole is a matcher for a regular expression that Envoy holds against the whole
// value.
func whole(pattern string) any { return object{{"regex", "^(?:" + pattern + ")$"}} }

// headerMatches turns Envoy's HeaderMatchers, which all must hold, into
// conditions. It reports what has no counterpart.
func (c routing) headerMatches(list []node) (all conditions, ok bool) {
	ok = true
	for _, n := range list {
		one, fits := c.headerMatch(n)
		if !fits {
			ok = false
			continue
		}
		if all, fits = all.and(one); !fits {
			c.report(Missing, n, "a second condition on the same thing: no rule has the limit behind it")
			ok = false
		}
	}
	return all, ok
}

func (c routing) headerMatch(n node) (conditions, bool) {
	name := strings.ToLower(n.get("name").text())
	matcher := headerMatcher(n)
	if matcher == nil {
		c.report(Missing, n, "a condition on the header %q that does not compare its text (range, custom): no rule has the "+
			"limit behind it", name)
		return conditions{}, false
	}
	if n.get("treat_missing_header_as_empty").flag(false) {
		c.report(Differs, n, "a header that is absent matches nothing here but {\"present\": false}")
	}
	var one conditions
	switch name {
	case ":method":
		text, exact := matcher.(string)
		if !exact {
			c.report(Missing, n, "a condition on the method other than a plain comparison: no rule has the limit behind it")
			return conditions{}, false
		}
		one.methods = []any{text}
	case ":path":
		c.report(Differs, n, "the path is compared without its query, and as upstreams read it")
		one.path = matcher
	case ":authority", "host":
		one.host = matcher
	default:
		one.headers = []headerCondition{{name, matcher}}
	}
	if n.get("invert_match").flag(false) {
		one = conditions{nots: []object{one.match()}}
	}
	return one, true
}

func headerMatcher(n node) any {
	if m := n.get("string_match"); m.ok() {
		return stringMatch(m)
	}
	if present := n.get("present_match"); present.ok() {
		return object{{"present", present.flag(true)}}
	}
	for old, op := range map[string]string{
		"prefix_match": "prefix", "suffix_match": "suffix",
		"contains_match": "contains",
	} {
		if value := n.get(old); value.ok() {
			return object{{op, value.text()}}
		}
	}
	if value := n.get("exact_match"); value.ok() {
		return value.text()
	}
	if pattern := n.get("safe_regex_match", "regex"); pattern.ok() {
		return whole(pattern.text())
	}
	if n.get("range_match").ok() {
		return nil
	}
	if len(n.names()) == 1 || len(n.names()) == 2 && n.get("invert_match").ok() { // the name alone
		return object{{"present", true}}
	}
	return nil
}
