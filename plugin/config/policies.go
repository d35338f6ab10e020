package config

// policy is who uses a policy's name. Policies are unique in a configuration,
// but for the tiers of one rule, as a request meets only one of these.
type policy struct {
	scope
	limit string // path
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

// claim reports a policy's name that another limit has.
func (s scope) claim(o object, name string) {
	first, taken := o.r.policies[name]
	switch {
	case name == "", taken && first.rule != s.rule && first.rule.Name == s.rule.Name:
		// Their rules' names are a mistake already.
	case taken && (first.rule != s.rule || first.tier == s.tier):
		o.mistake(`its policy is named %s, as that of %s (want another "name" for one of the two)`, quoted(name), first.limit)
	default:
		o.r.policies[name] = policy{scope: s, limit: o.path}
	}
}

// checkCost reports a constant cost that the limit can never admit. The largest
// that a header may ask for can be above: such a request is rejected.
func (s scope) checkCost(o object, limit *Limit) {
	cost, capacity := s.rule.Cost, limit.Capacity()
	if cost.Default <= capacity {
		return
	}
	path := s.path + ".cost"
	if cost.Header != "" {
		path += ".default"
	}
	o.r.mistake(path, "%d is above the capacity %d of %s, which never admits it (want at most %d)",
		cost.Default, capacity, o.path, capacity)
}
