package config

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
)

// readTiers reads "limits_by".
func (s scope) readTiers(o object) *Tiers {
	if !o.there {
		return nil
	}
	t := &Tiers{}
	source, hasSource := o.field("source")
	values, hasValues := o.field("values")
	switch {
	case hasSource:
		t.Source = readUnhashed(source, "a tier's source")
	case s.rule.Overrides && o.has("default"):
		t.Source = Component{Source: FromConstant} // tiers come from overrides alone
	case s.rule.Overrides:
		o.mistake(`"source" is missing (want %s, or a "default" if tiers come from overrides alone)`, sourceWant)
	default:
		o.mistake(`"source" is missing (want %s)`, sourceWant)
	}
	var fields []entry
	if hasValues {
		fields = tierNames.read(values)
	}
	for i, field := range fields {
		tier := Tier{Value: field.name}
		if field.json.Str == unlimited {
			tier.Unlimited = true
		} else if field.json.IsArray() {
			s.tier = i
			tier.Limits = s.readLimits(field.value)
		} else {
			field.mistake(`%s is not a tier (want a list of limits, or "unlimited")`, field.shown())
		}
		t.Values = append(t.Values, tier)
	}
	if v, ok := o.field("default"); ok {
		t.Default, t.HasDefault = v.readText()
		if t.HasDefault && t.Default == unlimited && !slices.Contains(t.Names(), unlimited) {
			t.Values = append(t.Values, Tier{Value: unlimited, Unlimited: true})
		}
		if t.HasDefault {
			tierNames.check(v, t.Default, t.Names())
		}
	}
	tierNames.checkSource(source, &t.Source, t.Names())
	return t
}

// Names are the tiers' names, in order.
func (t *Tiers) Names() (all []string) {
	for i := range t.Values {
		all = append(all, t.Values[i].Value)
	}
	return all
}

const unlimited = "unlimited"

// readUnhashed reads a component that no key holds.
func readUnhashed(v value, what string) Component {
	if _, ok := v.find("hash"); ok {
		v.mistake(`"hash" does not belong to %s, which no key holds (remove it)`, what)
	}
	c := readComponent(v)
	c.Hash = false
	return c
}

// named is a kind of entry that a component's value names in an object: a tier, or a class.
type named struct{ one, all, want string }

var (
	tierNames  = named{"tier", "tiers", tierWant}
	classNames = named{"class", "classes", classWant}
)

// read are the object's fields, by what they are named for.
func (n named) read(v value) []entry {
	fields, ok := v.readEntries(n.want)
	if ok && len(fields) == 0 {
		v.mistake("there are no %s (want %s)", n.all, n.want)
	}
	for _, field := range fields {
		if field.name == "" {
			field.mistake("a %s's value is empty (want one that the source can have)", n.one)
		}
	}
	return fields
}

// check reports a default that names none of those that are known.
func (n named) check(v value, name string, known []string) {
	if len(known) > 0 && !slices.Contains(known, name) {
		v.mistake("%s names no %s (want one of %s)", v.shown(), n.one, quotedList(known))
	}
}

// checkSource checks the default of the component itself, if it has one.
func (n named) checkSource(source value, c *Component, known []string) {
	if c.HasDefault {
		at, _ := source.find("default")
		n.check(at, c.Default, known)
	}
}

// readClasses reads a limit's "ceiling": which share of its capacity is there for a class of requests.
func readClasses(o object) *Classes {
	if !o.there {
		return nil
	}
	c := &Classes{}
	source, hasSource := o.field("source")
	if hasSource {
		c.Source = readUnhashed(source, "a class's source")
	}
	var known []string
	for _, field := range get(o, "values", classNames.read) {
		percent, _ := field.readWhole(1, algo.MaxCeiling)
		c.Values, known = append(c.Values, Class{Value: field.name, Percent: percent}), append(known, field.name)
	}
	if v, ok := o.field("default"); ok {
		if c.Default, ok = v.readText(); ok {
			classNames.check(v, c.Default, known)
		}
	}
	classNames.checkSource(source, &c.Source, known)
	return c
}
