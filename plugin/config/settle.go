package config

import (
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
)

// readSettle reads a rule's "settle".
func readSettle(v value) *Settle {
	o := v.readObject(settleFields)
	s := &Settle{}
	if !o.there {
		return s
	}
	if !o.has("status") && !o.has("expr") && !o.has("cost") {
		o.mistake(`nothing to settle by (want "status", "expr" or "cost")`)
	}
	if o.has("status") && o.has("expr") {
		o.mistake(`"status" and "expr" exclude each other (want at most one)`)
	}
	s.Status, s.Expr = get(o, "status", readStatuses), get(o, "expr", readCondition)
	if o.has("cost") {
		s.Cost = readSettleCost(o.object("cost"))
	}
	s.readMissing(o)
	return s
}

// readMissing reads a word, or the cost of an answer without a value.
func (s *Settle) readMissing(o object) {
	v, ok := o.field("missing")
	switch {
	case !ok || v.json.Type == gjson.String:
		s.Release = o.is("missing")
		return
	case !v.json.IsObject():
		v.mistake(`%s is no word and no cost (want "keep", "release" or {"cost": 5})`, v.shown())
		return
	}
	s.MissingCost = v.readObject(missingFields).number("cost")
	if !o.has("cost") {
		v.mistake(`a cost is for answers without the one that "settle" reads, which has no "cost" (want "keep" or "release")`)
	}
}

func readSettleCost(o object) *SettleCost {
	c := &SettleCost{}
	c.readSource(o)
	c.Per, c.Max = o.number("per"), o.number("max")
	return c
}

func readStatuses(v value) []StatusRange {
	elements, _ := v.readNonEmptyList(`statuses such as "401", "4xx", "500-599"`)
	var ranges []StatusRange
	seen := map[string]bool{}
	for _, element := range elements {
		text, ok := element.readText()
		if !ok {
			continue
		}
		r, ok := parseStatuses(text)
		switch {
		case !ok:
			element.mistake(`%s is not a status (want one such as "401", "4xx", "500-599")`, element.shown())
		case r.First > r.Last:
			element.mistake("%s ends before it begins (want \"%d-%d\")", element.shown(), r.Last, r.First)
		case seen[text]:
			element.mistake("%s appears twice (want it once)", element.shown())
		}
		seen[text] = true
		ranges = append(ranges, r)
	}
	return ranges
}

// parseStatuses reads "401", "4xx" or "500-599".
func parseStatuses(text string) (r StatusRange, ok bool) {
	if len(text) == 3 && strings.HasSuffix(text, "xx") && text[0] >= '1' && text[0] <= '5' {
		first := int(text[0]-'0') * 100
		return StatusRange{first, first + 99}, true
	}
	first, last, isRange := strings.Cut(text, "-")
	if r.First, ok = parseStatus(first); !ok || !isRange {
		return StatusRange{r.First, r.First}, ok
	}
	r.Last, ok = parseStatus(last)
	return r, ok
}

// parseStatus reads a status code from 100 to 599.
func parseStatus(text string) (int, bool) {
	status, err := strconv.Atoi(text)
	return status, err == nil && len(text) == 3 && status >= 100 && status <= 599
}

// checkSettle reports a "settle" whose cost would never change a charge.
func (rule *Rule) checkSettle(o object) {
	if rule.Settle == nil || rule.Settle.Cost == nil {
		return
	}
	switch {
	case rule.Cost.IsConstant() && rule.Cost.Default == 0:
		o.mistake(`"settle" has a "cost", but the rule's cost is 0, and nothing that was not charged is settled` +
			` (want a "cost" above 0)`)
	case !rule.takesCost():
		o.mistake(`"settle" has a "cost", but each limit has a "cost" of its own` +
			` (want a limit without, which takes the rule's)`)
	}
	for l := range rule.everyLimit {
		if l.Guarantee {
			o.mistake(`"settle" has a "cost", but a limit has a "guarantee": a settlement could use up the debt that others' ` +
				`guarantees need (remove one of the two)`)
			return
		}
	}
}

// takesCost reports whether there is a limit that takes the rule's cost, or
// none at all that is known.
func (rule *Rule) takesCost() bool {
	known := false
	for l := range rule.everyLimit {
		if l.Cost == nil {
			return true
		}
		known = true
	}
	return !known
}
