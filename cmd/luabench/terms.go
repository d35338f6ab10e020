package main

import (
	"fmt"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/redisresp"
)

// withTerms are rules that have more than limits: one that nobody has overridden,
// one under a penalty, both, and an identity that an operator has blocked.
func withTerms() []subject {
	penalty := &algo.Penalty{After: 5, WithinMicros: minute, ForMicros: []int64{5 * minute, hour}}
	blocked := termed("blocked by an override", algo.Terms{Overrides: true}, algo.ByBlock)
	blocked.prime = func(id string) []call {
		return []call{{[]string{"SET", termKeys(newTermed(blocked.name, algo.Terms{Overrides: true}), id)[1], "block", "EX", "3600"}, anything}}
	}
	return []subject{
		termed(overridesName, algo.Terms{Overrides: true}, algo.ByLimits),
		termed("gcra, penalty", algo.Terms{Penalty: penalty}, algo.ByLimits),
		termed("gcra, overrides and penalty", algo.Terms{Overrides: true, Penalty: penalty}, algo.ByLimits),
		blocked,
	}
}

// newTermed makes a rule of one busy bucket with terms.
func newTermed(name string, terms algo.Terms) rule {
	limit := bucket(algo.GCRA, second)
	p, err := algo.NewPlanWithTerms([]algo.Limit{limit}, terms)
	if err != nil {
		panic(fmt.Sprintf("%s: %v", name, err))
	}
	return rule{p, newRule(name, limit).tag}
}

// termKeys are the keys of the limit, then those of the terms.
func termKeys(r rule, id string) []string {
	keys := r.keys(id)
	for _, suffix := range r.TermSuffixes() {
		keys = append(keys, fmt.Sprintf("rl:{%s|%s}%s", r.tag, id, suffix))
	}
	return keys
}

// termed is a rule with terms, by whom the requests that are measured are decided.
func termed(name string, terms algo.Terms, by algo.By) subject {
	r := newTermed(name, terms)
	args := r.args(0, 1)
	if terms.Penalty != nil {
		args = append(append(args, terms.Penalty.Args()...), "")
	}
	accept := func(reply redisresp.Reply) error {
		var values []int64
		for it := reply.Iter(); it.Next(); {
			values = append(values, it.Reply().Int)
		}
		ruling, err := r.ParseRuling(values, make([]algo.Decision, len(r.Limits())))
		if err == nil && (ruling.By != by || ruling.Allowed != (by == algo.ByLimits)) {
			err = fmt.Errorf("%+v, which is not what is to be measured", ruling)
		}
		return err
	}
	return subject{
		name: name, scripts: []string{r.Script().Source},
		check: func(id string) []call {
			return []call{evalsha(r.Script().Source, termKeys(r, id), args, accept)}
		},
	}
}
