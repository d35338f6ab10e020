package config

import (
	"github.com/sluiceproxy/sluice/algo"
)

// Levels: limits of one rule that count for each value within its identity, that are there for
// classes of requests in part, or that guarantee each value its share of a pool.

// readClasses reads a limit's "ceiling".
func readClasses(o object) *Classes {
	if !o.there {
		return nil
	}
	c := &Classes{}
	source, hasSource := o.field("source")
	if hasSource {
		c.Source = readUnhashed(source, "a class's source")
	}
	var known []string
	for _, field := range get(o, "values", classNames.read) {
		percent, _ := field.readWhole(1, algo.MaxCeiling)
		c.Values, known = append(c.Values, Class{Value: field.name, Percent: percent}), append(known, field.name)
	}
	if v, ok := o.field("default"); ok {
		if c.Default, ok = v.readText(); ok {
			classNames.check(v, c.Default, known)
		}
	}
	classNames.checkSource(source, &c.Source, known)
	return c
}

func (d *draftLimit) mayGuarantee() bool {
	return d.Algorithm == algo.TokenBucket || d.Algorithm == algo.GCRA
}

// checkLevels finds the pool of the guarantee among limits, and reports whatever is not a pair, and
// levels that do not go with another limit.
func (s scope) checkLevels(drafts []draftLimit) {
	var guarantee, pool *draftLimit
	pools, single := 0, true
	for i := range drafts {
		switch d := &drafts[i]; {
		case d.Guarantee && guarantee != nil && single:
			d.mistake(`there are several limits with "guarantee" beside each other (want it in one, as in %s)`, guarantee.path)
			single = false
		case d.Guarantee && single:
			guarantee = d
		case d.mayGuarantee() && !d.Guarantee && !d.Steps && !d.has("per"):
			pool = d
			pools++
		}
	}
	switch {
	case guarantee == nil || !single:
	case pools != 1:
		guarantee.mistake(`"guarantee" has %d pools beside it (want exactly one limit without "per" that is a `+
			`"token_bucket" or "gcra")`, pools)
	case pool.has("cost"):
		pool.mistake(`"cost" is in the pool of a guarantee beside it (remove it: guarantee and pool take the rule's)`)
	default:
		pool.Pool = true
	}

	queue := ""
	for i := range drafts {
		if drafts[i].Queue {
			queue = drafts[i].path
		}
	}
	for i := range drafts {
		d, field := &drafts[i], ""
		switch {
		case d.has("per"):
			field = "per"
		case d.has("ceiling"):
			field = "ceiling"
		case d.Guarantee:
			field = "guarantee"
		default:
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
