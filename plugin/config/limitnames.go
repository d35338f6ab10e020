package config

// nameOwner is the limit that has a name. Names are unique in a configuration,
// except that tiers of one rule may share them, as a request meets one tier only.
type nameOwner struct {
	scope
	path string // of the limit
}

// nameLimits names the limits of one list and compares them with each other.
// Limits that lack too much to be compared are left out.
func (s scope) nameLimits(drafts []draftLimit, several bool) []Limit {
	unnamed := map[string]int{} // how many limits without a name have a window
	for i := range drafts {
		if !drafts[i].has("name") {
			unnamed[drafts[i].Window]++
		}
	}
	limits := make([]Limit, 0, len(drafts))
	twins := map[string]string{}
	for i := range drafts {
		d := &drafts[i]
		if !d.has("name") {
			d.Name = s.limitName(d, several, unnamed[d.Window] > 1)
		}
		if !d.isWhole() {
			continue
		}
		if !d.isTwin(twins) {
			s.claim(d.object, d.Name)
			s.checkTTL(d)
		}
		limits = append(limits, d.Limit)
	}
	return limits
}

// limitName is the name of a limit without one of its own, in answers and
// metrics: the rule's. If the rule has several limits, the window follows as it is
// spelled, or the algorithm if there is no window. The algorithm follows, too, if
// another limit without a name has this window. Limits of "over" have "-over" after the rule's.
func (s scope) limitName(d *draftLimit, several, shared bool) string {
	name := s.rule.Name
	if name != "" && s.tier == overScope {
		name += "-over"
	}
	if !several || name == "" {
		return name
	}
	name += "-" + d.spelled
	if shared && d.Algorithm.HasWindow() {
		name += "-" + d.Algorithm.String()
	}
	return name
}

// claim reports a name that another limit has.
func (s scope) claim(o object, name string) {
	first, taken := o.r.limitNames[name]
	switch {
	case name == "", taken && first.rule != s.rule && first.rule.Name == s.rule.Name:
		// Their rules' names are a mistake already.
	case taken && (first.rule != s.rule || first.tier == s.tier || s.tier == overScope):
		o.mistake(`its policy is named %s, as that of %s (want another "name" for one of the two)`, quoted(name), first.path)
	default:
		o.r.limitNames[name] = nameOwner{scope: s, path: o.path}
	}
}

// isTwin reports a limit that would share its key with one before it. paths has
// those so far, by the suffixes of their keys.
func (d *draftLimit) isTwin(paths map[string]string) bool {
	suffix := d.KeySuffix()
	first, taken := paths[suffix]
	switch {
	case taken && !d.Algorithm.HasWindow():
		d.object.mistake("same algorithm as %s (want one of the two)", first)
	case taken:
		d.object.mistake("same algorithm and window as %s (want one of the two to differ)", first)
	default:
		paths[suffix] = d.object.path
	}
	return taken
}

// ttlOwner is a limit whose "ttl" others must have, too.
type ttlOwner struct {
	micros int64 // 0: there is none
	path   string
}

// checkTTL reports a limit that counts together with another one and has another "ttl". A bucket
// drains what is lent if the tier that asks knows nothing of leases, and the slots of a request are
// renewed together.
func (s scope) checkTTL(d *draftLimit) {
	state, micros := d.KeySuffix(), int64(0)
	slots := !d.Algorithm.HasWindow()
	if slots {
		state, micros = "", d.TTLMicros
	} else if d.Lease != nil {
		micros = d.Lease.TTLMicros
	}
	if micros == 0 && (slots || d.Lease != nil) { // it is a mistake already
		return
	}
	first, known := d.r.ttls[s.rulePath+state]
	switch {
	case !known:
		d.r.ttls[s.rulePath+state] = ttlOwner{micros, d.path}
	case first.micros == micros:
	case slots:
		d.mistake(`"ttl" %q is not that of %s, %q (want one "ttl" for all slots of a rule)`,
			FormatDuration(micros), first.path, FormatDuration(first.micros))
	default:
		d.mistake(`"lease" is not that of %s, which counts in the same key (want a "lease" with one "ttl" in both, or none)`,
			first.path)
	}
}
