package explain

import (
	"slices"

	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Over says what becomes of a request that the rule rejects.
type Over struct {
	SetHeaders map[string]string `json:"set_headers,omitempty"`
	Charge     string            `json:"charge,omitempty"` // the purse
}

func overOf(c *config.Rule) *Over {
	if c.Over == nil {
		return nil
	}
	o := &Over{Charge: c.Over.Charge}
	for _, h := range c.Over.Headers {
		if o.SetHeaders == nil {
			o.SetHeaders = map[string]string{}
		}
		o.SetHeaders[h[0]] = h[1]
	}
	return o
}

// chargedBy is the names of the rules that charge a purse.
func chargedBy(cfg *config.Config, purse *config.Rule) (names []string) {
	for i := range cfg.Rules {
		if o := cfg.Rules[i].Over; purse.Only && o != nil && o.Charge == purse.Name {
			names = append(names, cfg.Rules[i].Name)
		}
	}
	return names
}

// purse is the applying part of a purse; nil if none applies.
func purse(set *rule.Set, req *Request, name string) *rule.Applied {
	i := slices.IndexFunc(set.Rules, func(r *rule.Rule) bool { return r.Name == name && r.Only })
	if i < 0 {
		return nil
	}
	var m rule.Matcher
	if a, ok := set.ApplyPurse(req, &m, set.Rules[i]); ok {
		return &a
	}
	return nil
}

// Strip takes from a request the headers that Sluice sets, and no client may send.
func (r *Request) Strip(set *rule.Set) {
	r.headers = slices.DeleteFunc(r.headers, func(h [2]string) bool {
		return slices.Contains(set.OverHeaders, config.SameHeader(h[0]))
	})
}
