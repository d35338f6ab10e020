package config

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Levels: limits of one rule that count for each value within its identity, that are there for
// classes of requests in part, or that guarantee each value its share of a pool.

// readPer reads a limit's "per".
func readPer(o object, limit *Limit) {
	v, ok := o.field("per")
	if !ok {
		return
	}
	elements, _ := v.readNonEmptyList(`components such as {"header": "x-team"}`)
	limit.Per = append(limit.Per, readComponents(elements)...)
	if !o.has("name") {
		o.mistake(`"name" is missing (want one such as "per-team": a limit with "per" has it in its keys)`)
	}
	limit.PerID = string(text.AppendEscaped(nil, limit.Name)) + "|"
}

// readClasses reads a limit's "ceiling".
func readClasses(v value) *Classes {
	o := v.readObject(ceilingFields)
	if !o.there {
		return nil
	}
	c := &Classes{}
	source, hasSource := o.field("source")
	if hasSource {
		c.Source = readUnhashed(source, "a class's source")
	}
	c.Values = get(o, "values", readClassValues)
	if v, ok := o.field("default"); ok {
		if c.Default, ok = v.readText(); ok {
			classNames.check(v, c.Default, c.names())
		}
	}
	classNames.checkSource(source, &c.Source, c.names())
	return c
}

func readClassValues(v value) (all []Class) {
	for _, field := range classNames.read(v) {
		percent, _ := field.readWhole(1, algo.MaxCeiling)
		all = append(all, Class{Value: field.name, Percent: percent})
	}
	return all
}

func (c *Classes) names() (all []string) {
	for _, class := range c.Values {
		all = append(all, class.Value)
	}
	return all
}

// readGuarantee reads a limit's "guarantee".
func readGuarantee(o object, limit *Limit) {
	if limit.Guarantee = o.is("guarantee"); !limit.Guarantee {
		return
	}
	if limit.Per == nil && !o.has("per") {
		o.mistake(`"guarantee" is in a limit without "per" (want "per": whom it guarantees its units)`)
	}
	if limit.Algorithm != 0 && !mayGuarantee(limit) {
		o.mistake(`"guarantee" does not belong to %q (remove it, or use "token_bucket", "gcra")`, limit.Algorithm.String())
	}
	if o.has("cost") {
		o.mistake(`"guarantee" is in a limit with a "cost" (remove it: guarantee and pool take the rule's)`)
	}
}

func mayGuarantee(limit *Limit) bool {
	return limit.Algorithm == algo.TokenBucket || limit.Algorithm == algo.GCRA
}

// checkGuarantee finds the pool of the guarantee among limits, and reports whatever is not a pair.
func checkGuarantee(drafts []draftLimit) {
	var guarantee, pool *draftLimit
	pools := 0
	for i := range drafts {
		switch d := &drafts[i]; {
		case d.Guarantee && guarantee != nil:
			d.mistake(`there are several limits with "guarantee" beside each other (want it in one, as in %s)`, guarantee.path)
			return
		case d.Guarantee:
			guarantee = d
		case mayGuarantee(&d.Limit) && !d.Steps && !d.has("per"):
			pool = d
			pools++
		}
	}
	switch {
	case guarantee == nil:
	case pools != 1:
		guarantee.mistake(`"guarantee" has %d pools beside it (want exactly one limit without "per" that is a `+
			`"token_bucket" or "gcra")`, pools)
	case pool.has("cost"):
		pool.mistake(`"cost" is in the pool of a guarantee beside it (remove it: guarantee and pool take the rule's)`)
	default:
		pool.Pool = true
	}
}

// checkLevels reports levels among limits that they do not go with.
func (s scope) checkLevels(drafts []draftLimit) {
	checkGuarantee(drafts)
	queue := ""
	for i := range drafts {
		if drafts[i].Queue {
			queue = drafts[i].path
		}
	}
	for i := range drafts {
		d := &drafts[i]
		field := d.levelField()
		if field == "" {
			continue
		}
		if d.Steps && d.Guarantee {
			d.mistake(`"guarantee" does not go with "refill": "step" (remove one of the two)`)
		}
		if queue != "" {
			d.mistake(`%q does not go with a bucket that queues (remove it, or "overflow" of %s)`, field, queue)
		}
		if s.rule.Penalty != nil {
			d.mistake(`%q does not go with the rule's "penalty": what a part of an identity does blocks no other`+
				` (remove one of the two)`, field)
		}
	}
}

// levelField is the field that makes a limit one of several levels; "" if none does.
func (d *draftLimit) levelField() string {
	for _, name := range levelFields {
		if d.has(name) && (name != "guarantee" || d.Guarantee) {
			return name
		}
	}
	return ""
}

var levelFields = []string{"per", "ceiling", "guarantee"}
