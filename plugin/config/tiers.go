package config

// readTiers reads "limits_by".
func readTiers(o object, s scope) *Tiers {
	if !o.there {
		return nil
	}
	t := &Tiers{}
	source, hasSource := o.field("source")
	values, hasValues := o.field("values")
	switch {
	case hasSource:
		t.Source = readTierSource(source)
	case s.rule.Overrides && o.has("default"):
		t.Source = Component{Source: FromConstant} // tiers come from overrides alone
	case s.rule.Overrides:
		o.mistake(`"source" is missing (want %s, or a "default" if tiers come from overrides alone)`, sourceWant)
	default:
		o.mistake(`"source" is missing (want %s)`, sourceWant)
	}
	if hasValues {
		t.Values = readTierValues(values, s)
	}
	if v, ok := o.field("default"); ok {
		t.Default, t.HasDefault = v.readText()
		t.nameUnlimited()
		t.checkNamed(v, t.Default, t.HasDefault)
	}
	if t.Source.HasDefault {
		at, _ := source.find("default")
		t.checkNamed(at, t.Source.Default, true)
	}
	return t
}

// nameUnlimited adds the tier "unlimited" if it is the default, and no value has that name.
func (t *Tiers) nameUnlimited() {
	if !t.HasDefault || t.Default != unlimited {
		return
	}
	for i := range t.Values {
		if t.Values[i].Value == unlimited {
			return
		}
	}
	t.Values = append(t.Values, Tier{Value: unlimited, Unlimited: true})
}

const unlimited = "unlimited"

func readTierSource(v value) Component { return readUnhashed(v, "a tier's source") }

// readUnhashed reads a component that no key holds.
func readUnhashed(v value, what string) Component {
	if _, ok := v.find("hash"); ok {
		v.mistake(`"hash" does not belong to %s, which no key holds (remove it)`, what)
	}
	return readComponent(v)
}

func readTierValues(v value, s scope) []Tier {
	fields, ok := v.readEntries(tierWant)
	if ok && len(fields) == 0 {
		v.mistake("there are no tiers (want %s)", tierWant)
	}
	all := make([]Tier, 0, len(fields))
	for i, field := range fields {
		tier := Tier{Value: field.name}
		if field.name == "" {
			field.mistake("a tier's value is empty (want one that the source can have)")
		}
		if field.json.Str == unlimited {
			tier.Unlimited = true
		} else if field.json.IsArray() {
			s.tier = i
			tier.Limits = readLimits(field.value, s)
		} else {
			field.mistake(`%s is not a tier (want a list of limits, or "unlimited")`, field.shown())
		}
		all = append(all, tier)
	}
	return all
}

// checkNamed reports a default that names no tier.
func (t *Tiers) checkNamed(v value, name string, ok bool) {
	var known []string
	for _, tier := range t.Values {
		if tier.Value == name {
			return
		}
		known = append(known, tier.Value)
	}
	if ok && len(known) > 0 {
		v.mistake("%s names no tier (want one of %s)", v.shown(), quotedList(known))
	}
}
