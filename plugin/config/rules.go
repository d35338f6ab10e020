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
	names := map[string]string{}
	for _, element := range elements {
		o, ok := element.object("name", "match", "exempt", "key", "cost", "limits", "limits_by", "mode")
		if !ok {
			continue
		}
		rule := readRule(o)
		if first, taken := names[rule.Name]; taken && rule.Name != "" {
			v, _ := o.field("name")
			v.mistake("%s is the name of %s already (want another)", v.shown(), first)
		} else {
			names[rule.Name] = o.path
		}
		all = append(all, *rule)
	}
	return all
}

func readRule(o object) *Rule {
	rule := &Rule{}
	if v, ok := o.required("name", `one such as "per-user"`); ok {
		rule.Name, _ = v.name()
	}
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
