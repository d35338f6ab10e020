package config

func readRules(o object) []Rule {
	v, ok := o.required("rules", "a list of at least one rule")
	if !ok {
		return nil
	}
	elements, ok := v.readNonEmptyList(`at least one rule such as {"name": "global", "limits": [...]}`)
	if !ok {
		return nil
	}
	all := make([]Rule, 0, len(elements))
	for _, element := range elements {
		o, ok := element.readObject(
			"name", "match", "exempt", "key", "cost", "settle", "limits", "limits_by", "mode", "failure", "overrides", "penalty",
		)
		if !ok {
			continue
		}
		all = append(all, *readRule(o))
	}
	return all
}

var modes = words[Mode]{
	{Enforce, "enforce"},
	{Shadow, "shadow"},
	{Off, "off"},
}

func readRule(o object) *Rule {
	rule := &Rule{}
	rule.Name = readRuleName(o)
	if v, ok := o.field("match"); ok {
		rule.Match = readMatch(v)
	}
	o.readBooleanField("exempt", &rule.Exempt)
	if rule.Exempt {
		o.refuse(`does not belong to an exempt rule (want "name" and "match" only)`, "key", "cost", "settle", "limits",
			"limits_by", "mode", "failure",
			"overrides", "penalty")
		return rule
	}
	readWordField(o, "mode", modes, &rule.Mode)
	rule.Failure = o.r.failure
	readWordField(o, "failure", failureModes, &rule.Failure)
	rule.Key = readKey(o)
	rule.Cost = readCost(o)
	rule.Settle = readSettle(o)
	rule.Overrides = readOverrides(o)
	rule.Penalty = readPenalty(o, rule.Mode)
	switch field, v, _ := o.oneOf("limits", "limits_by"); field {
	case "limits":
		rule.Limits = readLimits(v, scope{rule: rule, rulePath: o.path})
	case "limits_by":
		rule.Tiers = readTiers(v, scope{rule: rule, rulePath: o.path})
	}
	rule.checkSettle(o)
	return rule
}

// readRuleName reads a rule's name, which no rule before it may have.
func readRuleName(o object) string {
	v, ok := o.required("name", `one such as "per-user"`)
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

// configurationModes are those of a whole configuration.
var configurationModes = words[Mode]{
	{Enforce, "enforce"},
	{Shadow, "shadow"},
}

// shadow makes every enforced rule a shadow rule. What such a rule cannot have, as nobody is
// told of its rejections, is not in force: a penalty, and leases.
func shadow(rules []Rule) {
	for i := range rules {
		r := &rules[i]
		if r.Exempt || r.Mode != Enforce {
			continue
		}
		r.Mode, r.Penalty = Shadow, nil
		unlease(r.Limits)
		if r.Tiers != nil {
			for _, tier := range r.Tiers.Values {
				unlease(tier.Limits)
			}
		}
	}
}

func unlease(limits []Limit) {
	for i := range limits {
		limits[i].Lease = nil
	}
}
