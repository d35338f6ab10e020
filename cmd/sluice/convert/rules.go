package convert

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// descriptorRules makes the rules of one descriptor that a use sends, for the
// requests of when.
func (c *converter) descriptorRules(u *use, entries []entry, when object, s *service) {
	found := leaves(s.descriptors, entries, nil)
	tier := c.tierEntry(entries, found)
	var order []string
	groups := map[string][]leaf{}
	for _, l := range found {
		name := fmt.Sprint(l.shadow || l.quota) // the same for limits that one rule can have as tiers
		for i := range entries {
			if i != tier {
				name += fmt.Sprintf("/%q%q", l.picks[i].is, l.picks[i].not)
			}
		}
		if groups[name] == nil {
			order = append(order, name)
		}
		groups[name] = append(groups[name], l)
		c.reportIf(l.quota, Differs, l.node, "quota_mode: a shadow rule; the metadata that the service answers is not set")
		c.reportIf(l.replaces, Missing, l.node, "replaces: whoever this limits is held to the limits that it names, too (a "+
			"\"not\" in their rules' match would keep them away)")
		c.reportIf(l.labels, Note, l.node,
			"labels of metrics never come from requests; \"top_offenders\" logs who is rejected")
	}
	for _, name := range order {
		c.groupRule(u, entries, groups[name], when, tier)
	}
}

// tierEntry is the entry whose values choose the limit by limits_by; -1 for none.
// Values of other entries are for match, which sees headers and query parameters alone.
func (c *converter) tierEntry(entries []entry, found []leaf) int {
	best := -1
	for i := range entries {
		varies := func(l leaf) bool { return l.picks[i].descriptor != nil && !l.picks[i].any() }
		wild := func(l leaf) bool { return l.picks[i].wild() }
		if slices.ContainsFunc(found, varies) && (entries[i].field == "" || !slices.ContainsFunc(found, wild)) &&
			(best < 0 || entries[best].field != "" && entries[i].field == "") {
			best = i
		}
	}
	return best
}

// groupRule makes one rule of limits that differ in the tier entry's value alone.
func (c *converter) groupRule(u *use, entries []entry, group []leaf, when object, tier int) {
	first := group[0]
	var key []any
	var names []string
	for i, e := range entries {
		if e.static {
			names = append(names, e.value)
			continue
		}
		pick := first.picks[i]
		if i != tier {
			var only object // for the values of the pick
			if pick.is != "" && pick.is != "*" {
				only = e.is(matcher(pick.is))
			}
			for _, not := range pick.not {
				only = only.but(e.is(matcher(not)))
			}
			ok := e.field != "" || only == nil // else match cannot see them
			if ok {
				when, ok = when.and(only)
			}
			if !ok {
				c.report(Missing, first.node,
					"a limit for some values of %q, which match cannot compare: they are held to the other limits alone", e.key)
				return
			}
			if pick.exact() != "" || pick.shares {
				names = append(names, strings.TrimSuffix(pick.is, "*"))
				continue
			}
		}
		key, names = append(key, e.source), append(names, e.key)
	}
	limits, ok := c.groupLimits(group, entries, tier)
	if !ok {
		return
	}
	rule := assemble(c.name(names...), when.match(), key, c.cost(u.limit), limits,
		c.shadow || first.shadow || first.quota)
	from := []node{u.limit} // what the rule is made of
	for _, r := range u.routes {
		from = append(from, r.node)
	}
	for _, l := range group {
		from = append(from, l.node)
	}
	c.add(first.node, rule, from...)
}

// assemble writes a rule with its fields in their usual order.
func assemble(name string, match object, key []any, cost any, limits field, shadow bool) object {
	rule := object{{"name", name}, {"match", nil}, {"key", nil}, {"cost", cost}, limits, {"mode", nil}}
	if len(match) > 0 {
		rule[1].value = match
	}
	if len(key) > 0 {
		rule[2].value = key
	}
	if shadow {
		rule[5].value = "shadow"
	}
	return rule
}

// groupLimits are the limits of a group: plain ones, or tiers by the value of an
// entry. It reports false if there is nothing to limit.
func (c *converter) groupLimits(group []leaf, entries []entry, tier int) (field, bool) {
	if tier < 0 || len(group) == 1 && group[0].picks[tier].any() {
		limit := c.limit(&group[0])
		return field{"limits", []any{limit}}, limit != nil
	}
	values, fallback := object{}, (*leaf)(nil)
	var others []string
	for i := range group {
		l := &group[i]
		pick := &l.picks[tier]
		switch {
		case pick.exact() != "":
			values = append(values, field{pick.exact(), c.tierLimits(l)})
			continue
		case pick.wild():
			c.report(Missing, l.node, "a limit for some values of %q, of which only whole ones name a tier: they are held to "+
				"the other limits alone", entries[tier].key)
			return field{}, false
		}
		others, fallback = pick.not, cmp.Or(fallback, l)
	}
	for _, value := range others { // which have limits of their own elsewhere, or none
		if values.get(value) == nil {
			values = append(values, field{value, "unlimited"})
		}
	}
	tiers := object{{"source", entries[tier].source}, {"values", nil}, {"default", nil}}
	if fallback != nil {
		name := "others" // the tier of all other values
		for values.get(name) != nil {
			name += "_"
		}
		values, tiers[2].value = append(values, field{name, c.tierLimits(fallback)}), name
	}
	tiers[1].value = values
	return field{"limits_by", tiers}, slices.ContainsFunc(values, func(f field) bool { return f.value != "unlimited" })
}

func (c *converter) tierLimits(l *leaf) any {
	if limit := c.limit(l); limit != nil {
		return []any{limit}
	}
	return "unlimited"
}

// limit is the service's limit; nil if there is none, or none with a counterpart.
func (c *converter) limit(l *leaf) object {
	c.reportIf(l.wrong != nil, Missing, l.node, "%v", l.wrong)
	if l.limit == nil || l.name == "" || c.limitNames[l.name] {
		return l.limit
	}
	c.limitNames[l.name] = true
	return l.limit.set("name", l.name)
}
