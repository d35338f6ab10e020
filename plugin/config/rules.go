package config

import "github.com/sluiceproxy/sluice/algo"

func readRules(v value) []Rule {
	elements, ok := v.readNonEmptyList(`at least one rule such as {"name": "global", "limits": [...]}`)
	if !ok {
		return nil
	}
	all := make([]Rule, 0, len(elements))
	for _, element := range elements {
		if o := element.readObject(ruleFields); o.there {
			all = append(all, *readRule(o))
		}
	}
	return all
}

func readRule(o object) *Rule {
	rule := &Rule{Name: readRuleName(o), Match: readMatch(o.object("match")), Exempt: o.is("exempt")}
	if rule.Exempt {
		others := namesOf(ruleFields[placeOf(ruleFields, "exempt")+1:])
		o.refuse(`does not belong to an exempt rule (want "name" and "match" only)`, others...)
		return rule
	}
	rule.Mode, rule.Failure = Mode(o.number("mode")), o.r.failure
	if o.has("failure") {
		rule.Failure = FailureMode(o.number("failure"))
	}
	rule.Key = get(o, "key", readKey)
	rule.Cost = readCost(o)
	rule.Settle = get(o, "settle", readSettle)
	rule.Overrides = readOverrides(o)
	rule.Penalty = readPenalty(o, rule.Mode)
	switch field, v, _ := o.choice(); field {
	case "limits":
		rule.Limits = readLimits(v, scope{rule: rule, rulePath: o.path})
	case "limits_by":
		rule.Tiers = readTiers(v.readObject(tierFields), scope{rule: rule, rulePath: o.path})
	}
	rule.readOver(o)
	rule.Response, rule.Silent = get(o, "response", readResponse), !o.is("headers")
	rule.checkSettle(o)
	return rule
}

// readRuleName reads a rule's name, which no rule before it may have.
func readRuleName(o object) string {
	v, ok := o.field("name")
	if !ok {
		return ""
	}
	name, ok := v.readName()
	if first, taken := o.r.rules[name]; taken {
		v.mistake("%s is the name of %s already (want another)", v.shown(), first)
	} else if ok {
		o.r.rules[name] = o.path
	}
	return name
}

// readOverrides reads a rule's "overrides".
func readOverrides(o object) bool {
	overrides := o.is("overrides")
	if overrides && !o.r.hasRedis {
		o.mistake(`"overrides" are kept in Redis, which is not configured (want "redis" at the top level)`)
	}
	return overrides
}

// readPenalty reads a rule's "penalty". The mode is the rule's.
func readPenalty(o object, mode Mode) *algo.Penalty {
	if !o.has("penalty") {
		return nil
	}
	o = o.object("penalty")
	p := &algo.Penalty{After: o.number("after"), WithinMicros: o.number("within")}
	if v, ok := o.field("for"); ok {
		p.ForMicros = readBlocks(v, o.row("for"))
	}
	if mode != Enforce { // it waits: nobody is told of a rejection
		return nil
	}
	return p
}

func readBlocks(v value, f *field) []int64 {
	elements, _ := v.readNonEmptyList(`durations such as "5m"`)
	if len(elements) > algo.MaxBlocks {
		v.mistake("there are %d durations (want at most %d)", len(elements), algo.MaxBlocks)
	}
	blocks := make([]int64, len(elements))
	for i, element := range elements {
		blocks[i], _ = element.readDuration(f.low, f.high, "")
	}
	return blocks
}

// shadow turns every enforced rule into a shadow rule. Its penalty and its leases are not in force, because
// no client is told of its rejections.
func shadow(rules []Rule) {
	for i := range rules {
		r := &rules[i]
		if r.Exempt || r.Mode != Enforce {
			continue
		}
		r.Mode, r.Penalty = Shadow, nil
		for l := range r.everyLimit {
			l.Lease, l.LeaseMicros = nil, 0
		}
	}
}

// everyLimit is an iterator over the rule's limits, those of its tiers and of its "over" too.
func (rule *Rule) everyLimit(yield func(*Limit) bool) {
	for l := range rule.everyOwnLimit {
		if !yield(l) {
			return
		}
	}
	if rule.Over == nil {
		return
	}
	for i := range rule.Over.Limits {
		if !yield(&rule.Over.Limits[i]) {
			return
		}
	}
}

// everyOwnLimit is an iterator over the rule's limits without those of its "over".
func (rule *Rule) everyOwnLimit(yield func(*Limit) bool) {
	for _, limits := range rule.Lists {
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
