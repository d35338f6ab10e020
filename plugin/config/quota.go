package config

import (
	"slices"
)

// Quota is "quota": where callers read what they have left.
type Quota struct {
	Path  string // as a normalised path reads
	Rules []int  // the places of the listed rules in Config.Rules, in the order of the list
}

// readQuota reads "quota". rules are those of the configuration.
func readQuota(v value, rules []Rule) *Quota {
	o := v.readObject(quotaFields)
	q := &Quota{Path: o.text("path")}
	if q.Path != "" {
		at, _ := o.field("path")
		at.checkPath(Exact, q.Path)
	}
	for _, element := range o.list("rules") {
		name, ok := element.readNonEmpty(`the name of a rule such as "per-user"`)
		if !ok {
			continue
		}
		place := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })
		wrong := ""
		switch {
		case place < 0:
			wrong = "is the name of no rule (want one of \"rules\")"
		case slices.Contains(q.Rules, place):
			wrong = "is listed already (want each rule once)"
		default:
			wrong = rules[place].unlisted()
		}
		if wrong != "" {
			element.mistake("%s %s", element.shown(), wrong)
			continue
		}
		q.Rules = append(q.Rules, place)
	}
	return q
}

// unlisted is why callers cannot read the limits of a rule; "" if they can. A request for the quota has
// a path, a method and a query of its own.
func (rule *Rule) unlisted() string {
	switch {
	case rule.Exempt:
		return "is an exempt rule, which has no limits (want a rule that has some)"
	case rule.Mode == Off:
		return "is off, so that it counts nothing (want another rule, or another mode)"
	case rule.Silent:
		return `has "headers": false, so that no caller sees its limits (want another rule, or no such field)`
	}
	identify := rule.Identify()
	for i := range identify {
		switch source := identify[i].Source; source {
		case FromPath, FromMethod, FromQuery:
			return "identifies by \"" + sourceFields[source].name + "\", which a request for the quota has of its own " +
				"(want a rule whose key is the same for every request of a caller)"
		}
	}
	return ""
}

// Identify lists all components by which a rule counts: its key, and "per" of its limits and of its tiers'
// limits.
func (rule *Rule) Identify() []Component {
	identify := append([]Component(nil), rule.Key...)
	for l := range rule.everyLimit {
		identify = append(identify, l.Per...)
	}
	return identify
}
