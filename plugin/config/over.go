package config

import (
	"slices"
	"strings"
)

// maxOverHeaders bounds the headers of one rule's "over".
//
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
		Charge:  get(o, "charge", func(v value) string { name, _ := v.readName(); return name }),
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
	var headers [][2]string
	seen := map[string]bool{}
	for _, field := range fields {
		name := strings.ToLower(field.name)
		text, ok := field.readText()
		if ok {
			field.checkHeaderValue(text)
		}
		if !field.checkHeaderName(field.name) {
			continue
		}
		if name == "host" || slices.Contains(reserved[0], name) {
			field.mistake("not a header to set on a request (want one of your own, such as \"x-quota\")")
		}
		if seen[SameHeader(name)] {
			field.mistake(`appears twice, because header names are case-insensitive and "_" counts as "-" (want it once)`)
		}
		seen[SameHeader(name)] = true
		headers = append(headers, [2]string{name, text})
	}
	return headers
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
	queues := slices.ContainsFunc(rule.Limits, isQueue)
	if rule.Tiers != nil {
		queues = queues || slices.ContainsFunc(rule.Tiers.Values, func(t Tier) bool {
			return slices.ContainsFunc(t.Limits, isQueue)
		})
	}
	if !queues {
		return
	}
	o.refuse(`does not go with a bucket that queues (remove "overflow", or this)`, "over", "only")
}

func isQueue(l Limit) bool { return l.Queue }

// checkPurses reports purses that are not there, and purses that no rule names. elements are the
// rules as they are written.
func checkPurses(elements []value) {
	named, purses, others := map[string]bool{}, map[string]bool{}, map[string]bool{}
	var known []string
	for _, element := range elements {
		name, _ := element.find("name")
		if only, ok := element.find("only"); ok && only.json.Str == onlyWords[0] {
			purses[name.json.Str] = true
			known = append(known, name.json.Str)
		} else {
			others[name.json.Str] = true
		}
	}
	for _, element := range elements {
		over, _ := element.find("over")
		charge, ok := over.find("charge")
		name := charge.json.Str
		named[name] = true
		switch {
		case !ok || name == "" || purses[name]:
		case others[name]:
			charge.mistake(`%s names a rule that is not a purse (want "only": "over" in that rule)`, charge.shown())
		case len(known) > 0:
			charge.mistake("%s names no rule (want one of %s)", charge.shown(), quotedList(known))
		default:
			charge.mistake(`%s names no rule (want one of this name, with "only": "over")`, charge.shown())
		}
	}
	for _, element := range elements {
		name, _ := element.find("name")
		if only, ok := element.find("only"); ok && only.json.Str == onlyWords[0] && !named[name.json.Str] {
			element.mistake(`no rule charges the purse %s (want an "over" with "charge": %s, or no "only")`,
				name.shown(), name.shown())
		}
	}
}
