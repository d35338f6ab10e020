package config

import (
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
)

func readRule(o object) *Rule {
	rule := &Rule{}
	if v, ok := o.field("name"); ok {
		name, ok := v.readName()
		if first, taken := o.r.rules[name]; taken {
			v.mistake("%s is the name of %s already (want another)", v.shown(), first)
		} else if ok {
			o.r.rules[name] = o.path
		}
		rule.Name = name
	}
	rule.Match, rule.Exempt = readMatch(o.object("match")), o.is("exempt")
	if rule.Exempt {
		others := namesOf(ruleFields[placeOf(ruleFields, "exempt")+1:])
		o.refuse(`does not belong to an exempt rule (want "name" and "match" only)`, others...)
		return rule
	}
	rule.Mode, rule.Failure = Mode(o.number("mode")), o.r.config.Failure.Mode
	if o.has("failure") {
		rule.Failure = FailureMode(o.number("failure"))
	}
	rule.Key, rule.Cost = readComponents(o, "key"), readCost(o)
	rule.Settle = get(o, "settle", readSettle)
	if rule.Overrides = o.is("overrides"); rule.Overrides && o.r.config.Redis == nil {
		o.mistake(`"overrides" are kept in Redis, which is not configured (want "redis" at the top level)`)
	}
	if o.has("penalty") {
		penalty := o.object("penalty")
		rule.Penalty = &algo.Penalty{After: penalty.number("after"), WithinMicros: penalty.number("within")}
		for _, element := range penalty.list("for") {
			micros, _ := element.readDuration(algo.MinWindowMicros, algo.MaxWindowMicros, "")
			rule.Penalty.ForMicros = append(rule.Penalty.ForMicros, micros)
		}
	}
	s := scope{rule: rule, rulePath: o.path}
	switch field, v, _ := o.choice(); field {
	case "limits":
		rule.Limits = s.readLimits(v)
	case "limits_by":
		rule.Tiers = s.readTiers(v.readObject(tierFields))
	}
	s.readOver(o)
	rule.Response, rule.Silent = get(o, "response", readResponse), !o.is("headers")
	if rule.Settle == nil || rule.Settle.Cost == nil {
		return rule
	}
	hasLimits, takesCost, guarantees := false, false, false
	for l := range rule.everyLimit {
		hasLimits, takesCost, guarantees = true, takesCost || l.Cost == nil, guarantees || l.Guarantee
	}
	if rule.Cost.IsConstant() && rule.Cost.Default == 0 {
		o.mistake(`"settle" has a "cost", but the rule's cost is 0, and nothing that was not charged is settled` +
			` (want a "cost" above 0)`)
	} else if hasLimits && !takesCost {
		o.mistake(`"settle" has a "cost", but each limit has a "cost" of its own` +
			` (want a limit without, which takes the rule's)`)
	}
	if guarantees {
		o.mistake(`"settle" has a "cost", but a limit has a "guarantee": a settlement could use up the debt that others' ` +
			`guarantees need (remove one of the two)`)
	}
	return rule
}

// everyLimit is an iterator over the rule's limits, those of its tiers and of its "over" too.
func (rule *Rule) everyLimit(yield func(*Limit) bool) {
	var lists [][]Limit
	for _, limits := range rule.Lists {
		lists = append(lists, limits)
	}
	if rule.Over != nil {
		lists = append(lists, rule.Over.Limits)
	}
	for _, limits := range lists {
		for i := range limits {
			if !yield(&limits[i]) {
				return
			}
		}
	}
}

// Lists is an iterator over the rule's lists of limits, those of its tiers too, that are not empty,
// and where in the rule they stand.
func (rule *Rule) Lists(yield func(at string, limits []Limit) bool) {
	if len(rule.Limits) > 0 && !yield(".limits", rule.Limits) || rule.Tiers == nil {
		return
	}
	for _, tier := range rule.Tiers.Values {
		if len(tier.Limits) > 0 && !yield(joinPath(".limits_by.values", tier.Value), tier.Limits) {
			return
		}
	}
}

const (
	// Bound: headers that a rule sets on a request that is over. Beyond it, the configuration is
	// refused. Protects the request path, as each is a call of Envoy.
	maxOverHeaders = 16
	// Bound: limits of `over`. Beyond it, the configuration is refused. Protects a script from Lua's
	// 200 local variables.
	maxOverLimits = 8
)

// Over says what becomes of a request that the rule's limits reject, in place of a 429.
type Over struct {
	// Headers are set on the request, in the configuration's order: names in lower case.
	Headers [][2]string
	// Limits pay for the request, if all of them allow it; nil: nothing has to.
	Limits []Limit
}

// overScope is the scope.tier of limits of "over", which all tiers share.
const overScope = -1

// readOver reads a rule's "over", once its own limits are known.
func (s scope) readOver(o object) {
	if !o.has("over") {
		return
	}
	o.refuse(`does not go with "over": whoever is blocked is always rejected (remove one of them)`, "penalty")
	over, rule := o.object("over"), s.rule
	if over.there && !over.has("set_headers") && !over.has("limits") {
		over.mistake(`nothing becomes of a request that is over (want "set_headers", "limits" or both)`)
	}
	rule.Over = &Over{}
	if v, ok := over.field("set_headers"); ok {
		want := over.row("set_headers").want
		fields, ok := v.readEntries(want)
		if ok && len(fields) == 0 {
			v.mistake("there are no headers (want %s)", want)
		}
		if len(fields) > maxOverHeaders {
			v.mistake("there are %d headers (want at most %d)", len(fields), maxOverHeaders)
		}
		rule.Over.Headers = readHeaderFields(fields, SameHeader, func(name string) string {
			if name == "host" || slices.Contains(reserved[0], name) {
				return `not a header to set on a request (want one of your own, such as "x-quota")`
			}
			return ""
		})
	}
	if v, ok := over.field("limits"); ok {
		s.tier = overScope
		rule.Over.Limits = s.readLimits(v)
		if n := len(rule.Over.Limits); n > maxOverLimits {
			v.mistake("there are %d limits (want at most %d)", n, maxOverLimits)
		}
		for at, own := range rule.Lists {
			if n := len(own) + len(rule.Over.Limits); n > algo.MaxLimits {
				v.mistake("there are %d limits together with %s (want at most %d)", n, s.rulePath+at, algo.MaxLimits)
			}
		}
	}
	pays := len(rule.Over.Limits) > 0
	for l := range rule.everyLimit {
		switch {
		case l.Over: // see readLimit
		case l.Queue:
			o.refuse(`does not go with a bucket that queues (remove "overflow", or this)`, "over")
			return
		case pays && l.Lease != nil:
			o.mistake(`"limits" of "over" do not go with a "lease": only Redis can decide both together (remove one of them)`)
			return
		case pays && l.Guarantee:
			o.mistake(`"limits" of "over" do not go with a "guarantee" (remove one of them)`)
			return
		}
	}
}

// SameHeader is the spelling that names of one header have in common: some upstreams take "_"
// for "-". The name is in lower case.
func SameHeader(name string) string { return strings.ReplaceAll(name, "_", "-") }
