package explain

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/override"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// under applies an override to a rule that applies, as the plugin does.
func under(setting string, set *rule.Set, req *Request, came *rule.Applied) rule.Applied {
	a := *came
	a.Sizes = Sizes(setting, a.Limits, a.Sizes)
	if o := override.Parse(setting); o.Kind == override.Tier {
		if limits := set.Tier(a.Rule.ID, o.Rest); limits != nil {
			var m rule.Matcher
			a = set.ApplyAs(req, &m, limits)
			a.Tag = came.Tag
		}
	}
	return a
}

// Sizes are the sizes of limits for a request, as an override changes them; nil: as configured.
func Sizes(setting string, set *rule.LimitSet, came []algo.Size) []algo.Size {
	switch o := override.Parse(setting); o.Kind {
	case override.Numbers:
		if sizes, ok := set.SizesOf(nil, came, o.Rest); ok {
			return sizes
		}
	case override.Factor:
		var sizes []algo.Size
		for i := range set.Limits {
			l := set.Limits[i].Limit
			if came != nil {
				l.Resize(came[i])
			}
			sizes = append(sizes, l.Times(o.Factor))
		}
		return sizes
	}
	return came
}
