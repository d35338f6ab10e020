package config

// nameOwner is the limit that has a name. Names are unique in a configuration,
// except that tiers of one rule may share them, as a request meets one tier only.
type nameOwner struct {
	scope
	path string // of the limit
}

// readLimitName finds the name of a limit in answers and metrics: its own, else
// the rule's, with the window as it is spelled if the rule has several limits.
func readLimitName(o object, s scope, several bool, window string) string {
	name := s.rule.Name
	if several && name != "" {
		name += "-" + window
	}
	if v, ok := o.field("name"); ok {
		name, _ = v.readName()
	}
	return name
}

// claim reports a name that another limit has.
func (s scope) claim(o object, name string) {
	first, taken := o.r.limitNames[name]
	switch {
	case name == "", taken && first.rule != s.rule && first.rule.Name == s.rule.Name:
		// Their rules' names are a mistake already.
	case taken && (first.rule != s.rule || first.tier == s.tier):
		o.mistake(`its policy is named %s, as that of %s (want another "name" for one of the two)`, quoted(name), first.path)
	default:
		o.r.limitNames[name] = nameOwner{scope: s, path: o.path}
	}
}
