package promtest

import (
	"net/url"
)

// Rule is one of Prometheus' rules.
type Rule struct {
	Name, Query, State, Health, LastError string

	Alerts []struct{ Annotations map[string]string }
}

// Rules returns all rules of a kind, "alert" or "record", by name.
func (p *Prometheus) Rules(kind string) (map[string]Rule, error) {
	var data struct{ Groups []struct{ Rules []Rule } }
	if err := p.get("/api/v1/rules", url.Values{"type": {kind}}, &data); err != nil {
		return nil, err
	}
	rules := map[string]Rule{}
	for _, group := range data.Groups {
		for _, r := range group.Rules {
			rules[r.Name] = r
		}
	}
	return rules, nil
}
