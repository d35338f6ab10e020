package config

import (
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
)

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
