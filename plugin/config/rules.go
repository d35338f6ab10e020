package config

import "github.com/sluiceproxy/sluice/algo"

func readRule(o object) *Rule {
	rule := &Rule{}
	if v, ok := o.field("name"); ok {
		name, ok := v.readName()
		if first, taken := o.r.rules[name]; taken {
			v.mistake("%s is the name of %s already (want another)", v.shown(), first)
		} else if ok {
			o.r.rules[name] = o.path
		}
		rule.Name = name
	}
	rule.Match, rule.Exempt = readMatch(o.object("match")), o.is("exempt")
	if rule.Exempt {
		others := namesOf(ruleFields[placeOf(ruleFields, "exempt")+1:])
		o.refuse(`does not belong to an exempt rule (want "name" and "match" only)`, others...)
		return rule
	}
	rule.Mode, rule.Failure = Mode(o.number("mode")), o.r.failure
	if o.has("failure") {
		rule.Failure = FailureMode(o.number("failure"))
	}
	if v, ok := o.field("key"); ok {
		rule.Key = readComponents(v, o.row("key"))
	}
	rule.Cost = readCost(o)
	rule.Settle = get(o, "settle", readSettle)
	if rule.Overrides = o.is("overrides"); rule.Overrides && !o.r.hasRedis {
		o.mistake(`"overrides" are kept in Redis, which is not configured (want "redis" at the top level)`)
	}
	if o.has("penalty") {
		penalty := o.object("penalty")
		p := &algo.Penalty{After: penalty.number("after"), WithinMicros: penalty.number("within")}
		for _, element := range penalty.list("for") {
			micros, _ := element.readDuration(algo.MinWindowMicros, algo.MaxWindowMicros, "")
			p.ForMicros = append(p.ForMicros, micros)
		}
		if rule.Mode == Enforce { // elsewhere it waits: nobody is told of a rejection
			rule.Penalty = p
		}
	}
	s := scope{rule: rule, rulePath: o.path}
	switch field, v, _ := o.choice(); field {
	case "limits":
		rule.Limits = s.readLimits(v)
	case "limits_by":
		rule.Tiers = s.readTiers(v.readObject(tierFields))
	}
	s.readOver(o)
	rule.Response, rule.Silent = get(o, "response", readResponse), !o.is("headers")
	rule.checkSettle(o)
	return rule
}

// everyLimit is an iterator over the rule's limits, those of its tiers and of its "over" too.
func (rule *Rule) everyLimit(yield func(*Limit) bool) {
	var lists [][]Limit
	for _, limits := range rule.Lists {
		lists = append(lists, limits)
	}
	if rule.Over != nil {
		lists = append(lists, rule.Over.Limits)
	}
	for _, limits := range lists {
		for i := range limits {
			if !yield(&limits[i]) {
				return
			}
		}
	}
}

// Lists is an iterator over the rule's lists of limits, those of its tiers too, that are not empty,
// and where in the rule they stand.
func (rule *Rule) Lists(yield func(at string, limits []Limit) bool) {
	if len(rule.Limits) > 0 && !yield(".limits", rule.Limits) || rule.Tiers == nil {
		return
	}
	for _, tier := range rule.Tiers.Values {
		if len(tier.Limits) > 0 && !yield(joinPath(".limits_by.values", tier.Value), tier.Limits) {
			return
		}
	}
}
