package explain

import (
	"github.com/sluiceproxy/sluice/plugin/override"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// under applies an override to a rule that applies, as the plugin does.
func under(setting string, set *rule.Set, req *Request, came *rule.Applied) rule.Applied {
	a := *came
	switch o := override.Parse(setting); o.Kind {
	case override.Factor:
		a.Sizes = a.Limits.Multiplied(nil, a.Sizes, o.Factor)
	case override.Numbers:
		if sizes, ok := a.Limits.SizesOf(nil, a.Sizes, o.Rest); ok {
			a.Sizes = sizes
		}
	case override.Tier:
		if limits := set.Tier(a.Rule.ID, o.Rest); limits != nil {
			var m rule.Matcher
			a = set.ApplyAs(req, &m, limits)
			a.Tag = came.Tag
		}
	}
	return a
}
