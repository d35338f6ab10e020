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
	seen := map[string]bool{}
	for _, element := range o.list("status") {
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
		s.Status = append(s.Status, r)
	}
	s.Expr = get(o, "expr", readCondition)
	if o.has("cost") {
		cost := o.object("cost")
		s.Cost = &SettleCost{}
		s.Cost.readSource(cost)
		s.Cost.Per, s.Cost.Max = cost.number("per"), cost.number("max")
	}
	missing, ok := o.field("missing")
	switch {
	case !ok || missing.json.Type == gjson.String:
		s.Release = o.is("missing")
	case !missing.json.IsObject():
		missing.mistake(`%s is no word and no cost (want "keep", "release" or {"cost": 5})`, missing.shown())
	default:
		s.MissingCost = missing.readObject(missingFields).number("cost")
		if !o.has("cost") {
			missing.mistake(
				`a cost is for answers without the one that "settle" reads, which has no "cost" (want "keep" or "release")`,
			)
		}
	}
	return s
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
	limits, takeCost, guarantees := 0, 0, 0
	for l := range rule.everyLimit {
		limits++
		if l.Cost == nil {
			takeCost++
		}
		if l.Guarantee {
			guarantees++
		}
	}
	switch {
	case rule.Cost.IsConstant() && rule.Cost.Default == 0:
		o.mistake(`"settle" has a "cost", but the rule's cost is 0, and nothing that was not charged is settled` +
			` (want a "cost" above 0)`)
	case limits > 0 && takeCost == 0:
		o.mistake(`"settle" has a "cost", but each limit has a "cost" of its own` +
			` (want a limit without, which takes the rule's)`)
	}
	if guarantees > 0 {
		o.mistake(`"settle" has a "cost", but a limit has a "guarantee": a settlement could use up the debt that others' ` +
			`guarantees need (remove one of the two)`)
	}
}
