package explain

import (
	"slices"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/answer"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/override"
)

// Headers are the header fields by which the response tells the client of its limits, at a time, if
// nothing has been used before. There are none where clients see no limit, or the request is rejected
// even so.
func Headers(cfg *config.Config, rules []Rule, atMicros int64) [][2]string {
	var shown []answer.Limit
	for i := range rules {
		r := &rules[i]
		if r.Applied == nil || r.Mode != "enforce" || r.Reports || r.Unlimited {
			continue
		}
		switch override.Parse(r.Contract).Kind {
		case override.Block:
			return nil
		case override.Free:
			continue
		}
		a, set := r.Applied, r.Applied.Limits
		sizes, costs, applies := slices.Clone(a.Sizes), slices.Clone(a.Costs), slices.Repeat([]bool{true}, len(a.Costs))
		for i := range costs {
			if set.Calendars != nil && set.Calendars[i] != nil {
				sizes[i].Bounds = set.Calendars[i].Around(atMicros)
			}
			if a.Values != nil {
				_, applies[i] = set.ValuesOf(a.Values, i)
			}
			if !applies[i] {
				costs[i] = 0
			}
		}
		plan, decisions := set.Plan.At(new(algo.Plan), sizes), make([]algo.Decision, len(costs))
		if !plan.DecideAs(1, make([]algo.State, len(costs)), atMicros, costs, decisions) {
			return nil
		}
		plan.Resolve(decisions)
		for i := range decisions {
			if !applies[i] || decisions[i].Hidden {
				continue
			}
			limit := answer.Limit{Label: &set.Labels[i], Decision: decisions[i]}
			if sizes != nil {
				limit.Sized = &plan.Limits()[i]
			}
			shown = append(shown, limit)
		}
	}
	return answer.New(cfg, 1).Headers(shown, atMicros, answer.Upstream{})
}
