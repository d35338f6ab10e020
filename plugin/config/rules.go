package config

import "github.com/sluiceproxy/sluice/algo"

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
		o, ok := element.readObject("name", "match", "exempt", "key", "cost", "limits", "limits_by", "mode")
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
	rule.Name = ruleName(o)
	if v, ok := o.field("match"); ok {
		rule.Match = readMatch(v)
	}
	o.readBooleanField("exempt", &rule.Exempt)
	if rule.Exempt {
		o.refuse(`does not belong to an exempt rule (want "name" and "match" only)`, "key", "cost", "limits", "limits_by", "mode")
		return rule
	}
	readWordField(o, "mode", modes, &rule.Mode)
	rule.Key = readKey(o)
	rule.Cost = readCost(o)
	switch field, v, _ := o.oneOf("limits", "limits_by"); field {
	case "limits":
		rule.Limits = readLimits(v, scope{rule: rule, path: o.path})
	case "limits_by":
		rule.Tiers = readTiers(v, scope{rule: rule, path: o.path})
	}
	return rule
}

// ruleName reads a rule's name, which no rule before it has.
func ruleName(o object) string {
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

func readCost(o object) Cost {
	c := Cost{Default: 1, Max: algo.MaxCost}
	v, ok := o.field("cost")
	if !ok {
		return c
	}
	if !v.json.IsObject() {
		o.readWholeField("cost", &c.Default, 0, algo.MaxCost)
		return c
	}
	o, ok = v.readObject("header", "default", "max")
	if !ok {
		return c
	}
	if v, ok := o.required("header", `one such as "x-cost"; a constant cost is a plain number`); ok {
		c.Header, _ = v.readHeaderName()
	}
	o.readWholeField("default", &c.Default, 0, algo.MaxCost)
	o.readWholeField("max", &c.Max, 1, algo.MaxCost)
	if c.Default > c.Max {
		o.mistake(`"default" %d is above "max" %d (want at most that)`, c.Default, c.Max)
	}
	return c
}
