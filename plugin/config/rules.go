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
			"name", "match", "exempt", "key", "cost", "settle", "limits", "limits_by", "mode", "overrides", "penalty",
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
		o.refuse(`does not belong to an exempt rule (want "name" and "match" only)`, "key", "cost", "settle", "limits", "limits_by", "mode",
			"overrides", "penalty")
		return rule
	}
	readWordField(o, "mode", modes, &rule.Mode)
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
