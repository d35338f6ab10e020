package explain

import (
	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/plugin/override"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// under applies an override to a rule that applies, as the plugin does.
func under(setting string, set *rule.Set, req *Request, came *rule.Applied) rule.Applied {
	a := *came
	switch o := override.Parse(setting); o.Kind {
	case override.Factor:
		a.Sizes = times(&a, o.Factor)
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

// times is the sizes that a factor, in thousandths, makes of the limits.
func times(a *rule.Applied, thousandths int64) (sizes []algo.Size) {
	for i := range a.Limits.Limits {
		l := a.Limits.Limits[i].Limit
		if a.Sizes != nil {
			l.Resize(a.Sizes[i])
		}
		sizes = append(sizes, l.Times(thousandths))
	}
	return sizes
}
