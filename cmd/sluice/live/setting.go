package live

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/plugin/override"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// want says what a setting may be.
const want = "want block, free, a factor such as x2 or x0.5, from x0.001 to x1000, tier:NAME, or limits:LIMIT=UNITS"

// CheckSetting accepts what the plugin takes for an override of an identity.
func CheckSetting(setting string, id *Identity) error {
	switch o := override.Parse(setting); o.Kind {
	case override.None, override.Nonsense:
		if len(setting) > algo.MaxOverrideBytes {
			return fmt.Errorf("an override of %d bytes (want at most %d)", len(setting), algo.MaxOverrideBytes)
		}
		return fmt.Errorf("%q is not an override (%s)", setting, want)
	case override.Tier:
		return checkTier(o.Rest, id.Tiers())
	case override.Numbers:
		return checkNumbers(o.Rest, id.LimitSets())
	}
	return nil
}

func checkTier(name string, tiers []string) error {
	switch {
	case len(tiers) == 0:
		return fmt.Errorf(`there is no tier %q: the rule has no tiers (want "limits_by")`, name)
	case !slices.Contains(tiers, name):
		return fmt.Errorf("there is no tier %q (want one of %s)", name, shown.Quoted(tiers))
	}
	return nil
}

// checkNumbers accepts a list that fits one of the sets.
func checkNumbers(list string, sets []*rule.LimitSet) error {
	var names []string
	for _, set := range sets {
		if _, ok := set.SizesOf(nil, nil, list); ok {
			return nil
		}
		for i := range set.Labels {
			if !slices.Contains(names, set.Labels[i].Name) {
				names = append(names, set.Labels[i].Name)
			}
		}
	}
	if len(names) == 0 {
		return fmt.Errorf("limits:%s: there are no limits to change", list)
	}
	return explainNumbers(list, names, sets)
}

// explainNumbers says what is wrong with a list that fits no set.
func explainNumbers(list string, names []string, sets []*rule.LimitSet) error {
	var seen []string
	for rest := list; rest != ""; {
		part, _, _ := strings.Cut(rest, ",")
		n, others, ok := override.Next(rest)
		if !ok {
			return fmt.Errorf("%q is not a number for a limit (want LIMIT=UNITS or LIMIT=UNITS/BURST: units from 0, a burst "+
				"from 1, both to %d)", part, algo.MaxUnits)
		}
		at := slices.IndexFunc(names, func(name string) bool { return override.Names(n.Limit, name) })
		switch {
		case at < 0:
			return fmt.Errorf("there is no limit %q (want one of %s)", n.Limit, shown.Quoted(names))
		case slices.Contains(seen, names[at]):
			return fmt.Errorf("limit %q has two numbers", names[at])
		case n.Burst > 0 && !burst(names[at], sets):
			return fmt.Errorf("limit %q takes no burst (want %s=%d)", names[at], n.Limit, n.Units)
		}
		seen, rest = append(seen, names[at]), others
	}
	return fmt.Errorf("limits:%s: no tier has all of these limits", list)
}

// burst reports whether a limit of this name has a burst.
func burst(name string, sets []*rule.LimitSet) bool {
	for _, set := range sets {
		for i := range set.Labels {
			if set.Labels[i].Name == name && set.Limits[i].Algorithm.HasBurst() {
				return true
			}
		}
	}
	return false
}

// NumbersSetting is the setting of absolute numbers, each "LIMIT=UNITS" or "LIMIT=UNITS/BURST", with the
// limit's policy name as it is: it may have "=" in it.
func NumbersSetting(limits []string) (string, error) {
	var list []byte
	for _, limit := range limits {
		at := strings.LastIndexByte(limit, '=')
		if at < 1 {
			return "", fmt.Errorf("--limit: %q is not a number for a limit (want LIMIT=UNITS or LIMIT=UNITS/BURST)", limit)
		}
		units, burst, _ := strings.Cut(limit[at+1:], "/")
		list = override.AppendNumber(list, limit[:at], units, burst)
	}
	return override.NumbersPrefix + string(list), nil
}
