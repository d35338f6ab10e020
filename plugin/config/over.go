package config

import (
	"slices"
	"strings"
)

// Bound: headers that a rule sets on a request that is over. Beyond it, the configuration is
// refused. Protects the request path, as each is a call of Envoy.
const maxOverHeaders = 16

// Over says what becomes of a request that the rule's limits reject, in place of a 429.
type Over struct {
	// Headers are set on the request, in the configuration's order: names in lower case.
	Headers [][2]string
	// Charge is the name of the purse that pays; "": none has to.
	Charge string
}

// readOver reads a rule's "over".
func readOver(o object, mode Mode) *Over {
	if !o.has("over") {
		return nil
	}
	if mode == Shadow {
		o.mistake(`"over" is in a rule that rejects nobody (want the mode "enforce")`)
	}
	o.refuse(`does not go with "over": whoever is blocked is always rejected (remove one of them)`, "penalty")
	o = o.object("over")
	if o.there && !o.has("set_headers") && !o.has("charge") {
		o.mistake(`nothing becomes of a request that is over (want "set_headers", "charge" or both)`)
	}
	return &Over{
		Headers: get(o, "set_headers", readOverHeaders),
		Charge:  get(o, "charge", readNameOf),
	}
}

// readOverHeaders reads headers that are set on requests.
func readOverHeaders(v value) [][2]string {
	const want = `an object such as {"x-quota": "over"}`
	fields, ok := v.readEntries(want)
	if ok && len(fields) == 0 {
		v.mistake("there are no headers (want %s)", want)
	}
	if len(fields) > maxOverHeaders {
		v.mistake("there are %d headers (want at most %d)", len(fields), maxOverHeaders)
	}
	return readHeaderFields(fields, SameHeader, func(field entry, name string) {
		if name == "host" || slices.Contains(reserved[0], name) {
			field.mistake(`not a header to set on a request (want one of your own, such as "x-quota")`)
		}
	})
}

// SameHeader is the spelling that names of one header have in common: some upstreams take "_"
// for "-". The name is in lower case.
func SameHeader(name string) string { return strings.ReplaceAll(name, "_", "-") }

// readOnly reads whether a rule is a purse, which is asked in place of other rules only.
func readOnly(o object, mode Mode) bool {
	v, ok := o.field("only")
	if !ok {
		return false
	}
	_, ok = v.readWord(onlyWords)
	if ok && mode != Enforce {
		o.mistake(`"only" is in a rule that rejects nobody (want the mode "enforce")`)
	}
	o.refuse(`does not belong to a purse (remove it, or "only": "over")`, "over", "penalty", "failure")
	return ok
}

// checkQueues reports buckets that queue in a rule whose rejections go on, or in a purse.
func (rule *Rule) checkQueues(o object) {
	for l := range rule.everyLimit {
		if l.Queue {
			o.refuse(`does not go with a bucket that queues (remove "overflow", or this)`, "over", "only")
			return
		}
	}
}

// checkPurses reports purses that are not there, and purses that no rule names. objects are the
// rules as they are written.
func checkPurses(rules []Rule, objects []object) {
	for i := range rules {
		r, o := &rules[i], objects[i]
		if r.Over != nil && r.Over.Charge != "" {
			o.checkCharge(rules, r.Over.Charge)
		}
		if r.Only && !slices.ContainsFunc(rules, func(by Rule) bool { return by.Over != nil && by.Over.Charge == r.Name }) {
			o.mistake(`no rule charges the purse %s (want an "over" with "charge": %s, or no "only")`, quoted(r.Name),
				quoted(r.Name))
		}
	}
}

// checkCharge reports a name that is not a purse's.
func (o object) checkCharge(rules []Rule, name string) {
	var purses []string
	want := `one of this name, with "only": "over"`
	for i := range rules {
		if rules[i].Only {
			purses = append(purses, rules[i].Name)
			want = "one of " + quotedList(purses)
		}
	}
	path := o.path + ".over.charge"
	i := slices.IndexFunc(rules, func(r Rule) bool { return r.Name == name })
	switch {
	case i < 0:
		o.r.mistake(path, "%s names no rule (want %s)", quoted(name), want)
	case !rules[i].Only:
		o.r.mistake(path, `%s names a rule that is not a purse (want "only": "over" in that rule)`, quoted(name))
	}
}
