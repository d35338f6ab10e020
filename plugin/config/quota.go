package config

import (
	"slices"
	"strconv"
	"strings"
)

// Quota is "quota": where callers read what they have left.
type Quota struct {
	Path  string // as a normalised path reads
	Rules []int  // the places of the listed rules in Config.Rules, in the order of the list
}

// readQuota reads "quota". rules are those of the configuration.
func readQuota(top object, rules []Rule) *Quota {
	if !top.has("quota") {
		return nil
	}
	o := top.object("quota")
	q := &Quota{Path: get(o, "path", readQuotaPath)}
	list, ok := o.field("rules")
	if !ok {
		return q
	}
	elements, _ := list.readNonEmptyList(`names of rules such as "per-user"`)
	for _, element := range elements {
		if i, ok := element.readListed(rules); ok && slices.Contains(q.Rules, i) {
			element.mistake("%s is listed already (want each rule once)", element.shown())
		} else if ok {
			q.Rules = append(q.Rules, i)
		}
	}
	return q
}

// readQuotaPath reads a whole path, which must be one that a normalised path can be.
func readQuotaPath(v value) string {
	path, ok := v.readNonEmpty(`a path such as "/.well-known/quota"`)
	switch {
	case !ok:
	case !strings.HasPrefix(path, "/"):
		v.mistake(`%s does not begin with a slash (want one such as "/.well-known/quota")`, v.shown())
	case unnormalised(Exact, path) != "":
		v.mistake("%s is not how a normalised path reads (want %s)", v.shown(), unnormalised(Exact, path))
	}
	return path
}

// readListed reads the name of a rule whose limits callers may read, and returns its place.
func (v value) readListed(rules []Rule) (place int, ok bool) {
	name, ok := v.readNonEmpty(`the name of a rule such as "per-user"`)
	if !ok {
		return 0, false
	}
	place = slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })
	if place < 0 {
		v.unknownRule(name, rules)
		return 0, false
	}
	r := &rules[place]
	switch {
	case r.Exempt:
		v.mistake("%s is an exempt rule, which has no limits (want a rule that has some)", v.shown())
	case r.Mode == Off:
		v.mistake("%s is off, so that it counts nothing (want another rule, or another mode)", v.shown())
	case r.Only:
		v.mistake(`%s is a purse, which pays for other rules ("only": "over"; want a rule that applies by itself)`, v.shown())
	default:
		v.checkIdentity(r)
	}
	return place, true
}

func (v value) unknownRule(name string, rules []Rule) {
	names := make([]string, len(rules))
	for i := range rules {
		names[i] = rules[i].Name
	}
	if meant, found := nearest(name, names); found {
		v.mistake("%s is the name of no rule (did you mean %q?)", v.shown(), meant)
		return
	}
	v.mistake("%s is the name of no rule (want one of %s)", v.shown(), quotedList(names))
}

// checkIdentity reports a rule that identifies by what a request for the quota has of its own.
func (v value) checkIdentity(r *Rule) {
	for i := range r.Key {
		switch source := r.Key[i].Source; source {
		case FromPath, FromMethod, FromQuery:
			v.mistake("%s identifies by %q, which a request for the quota has of its own (want a rule whose key is the same "+
				"for every request of a caller)", v.shown(), sourceFields[source].name)
		}
	}
}

// OddQuotas says which listed rules identify by an expression that reads the request line: what
// callers read is then another identity's. It is not a mistake.
func (c *Config) OddQuotas() (notes []Mistake) {
	if c.Quota == nil {
		return nil
	}
	for i, place := range c.Quota.Rules {
		for k := range c.Rules[place].Key {
			if e := (Expression{Text: c.Rules[place].Key[k].Expr}); e.readsLine() {
				notes = append(notes, Mistake{
					Path: "quota.rules[" + strconv.Itoa(i) + "]",
					Problem: "rule " + strconv.Quote(c.Rules[place].Name) + " identifies by an expression that reads the path, the " +
						"method or the query: those of a request for the quota are its own, so that callers may read another identity's",
				})
				break
			}
		}
	}
	return notes
}

// lineAttributes are how an expression reads the rest of the request line, written as pathAttributes
// are.
var lineAttributes = []string{
	"request.method", "request.query", "request['method']", "request['query']", "':method'",
}

// readsLine reports whether the expression reads the path, the method or the query. It may be wrong
// about texts in quotes.
func (e Expression) readsLine() bool { return e.ReadsPath() || e.reads(lineAttributes) }
