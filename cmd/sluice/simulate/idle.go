package simulate

import (
	"slices"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
)

// maxSamples bounds how many requests are asked why a rule applied to none of them.
const maxSamples = 50

// sample remembers the first different requests.
func (t *tally) sample(r *request) {
	if len(t.samples) < maxSamples && !slices.Contains(t.samples, r.http) {
		t.samples = append(t.samples, r.http)
	}
}

// idle says why each rule that applied to no request did not, by its name. It names the reason
// that most of the samples have.
func (t *tally) idle() map[string]string {
	var names []string
	for _, r := range t.world.rules.Rules {
		if !r.Exempt && t.rules[r.Name].Checked == 0 {
			names = append(names, r.Name)
		}
	}
	reasons := map[string]string{}
	if len(names) == 0 || len(t.samples) == 0 {
		return reasons
	}
	times := map[[2]string]int{} // by rule and reason
	for _, request := range t.samples {
		rules, err := explain.Explain(t.world.cfg, request)
		if err != nil {
			continue // what compiled before compiles again
		}
		for i := range rules {
			name, why := rules[i].Rule, rules[i].Why
			if !slices.Contains(names, name) {
				continue
			}
			if rules[i].Applies {
				why = "its tier is unlimited"
			}
			times[[2]string{name, why}]++
			if times[[2]string{name, why}] > times[[2]string{name, reasons[name]}] {
				reasons[name] = why
			}
		}
	}
	return reasons
}
