package config

import "github.com/sluiceproxy/sluice/algo"

func rules(o object) []Rule {
	v, ok := o.required("rules", "a list of at least one rule")
	if !ok {
		return nil
	}
	elements, ok := v.nonEmptyList(`at least one rule such as {"name": "global", "limits": [...]}`)
	if !ok {
		return nil
	}
	all := make([]Rule, 0, len(elements))
	for _, element := range elements {
		o, ok := element.object("name", "match", "exempt", "key", "cost", "limits", "limits_by", "mode")
		if !ok {
			continue
		}
		all = append(all, *readRule(o))
	}
	return all
}

func readRule(o object) *Rule {
	rule := &Rule{}
	rule.Name = ruleName(o)
	if v, ok := o.field("match"); ok {
		rule.Match = match(v)
	}
	o.readBoolean("exempt", &rule.Exempt)
	if rule.Exempt {
		o.refuse(`does not belong to an exempt rule (want "name" and "match" only)`, "key", "cost", "limits", "limits_by", "mode")
		return rule
	}
	rule.Mode = Mode(o.readChoice("mode", "enforce", "shadow", "off"))
	rule.Key = key(o)
	rule.Cost = cost(o)
	switch field, v, _ := o.oneOf("limits", "limits_by"); field {
	case "limits":
		rule.Limits = limits(v, scope{rule: rule, path: o.path})
	case "limits_by":
		rule.Tiers = tiers(v, scope{rule: rule, path: o.path})
	}
	return rule
}

// ruleName reads a rule's name, which no rule before it has.
func ruleName(o object) string {
	v, ok := o.required("name", `one such as "per-user"`)
	if !ok {
		return ""
	}
	name, ok := v.name()
	if first, taken := o.r.rules[name]; taken {
		v.mistake("%s is the name of %s already (want another)", v.shown(), first)
	} else if ok {
		o.r.rules[name] = o.path
	}
	return name
}

func cost(o object) Cost {
	c := Cost{Default: 1, Max: algo.MaxCost}
	v, ok := o.field("cost")
	if !ok {
		return c
	}
	if !v.json.IsObject() {
		o.readWhole("cost", &c.Default, 0, algo.MaxCost)
		return c
	}
	o, ok = v.object("header", "default", "max")
	if !ok {
		return c
	}
	if v, ok := o.required("header", `one such as "x-cost"; a constant cost is a plain number`); ok {
		c.Header, _ = v.headerName()
	}
	o.readWhole("default", &c.Default, 0, algo.MaxCost)
	o.readWhole("max", &c.Max, 1, algo.MaxCost)
	if c.Default > c.Max {
		o.mistake(`"default" %d is above "max" %d (want at most that)`, c.Default, c.Max)
	}
	return c
}
