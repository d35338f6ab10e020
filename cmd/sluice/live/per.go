package live

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/cmd/sluice/console"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Limits with "per" have a counter for each value within an identity.

// counter is the subject of one limit: the identity, or a value within it.
type counter struct {
	limit  int
	values string // as in keys; "" for the identity itself
}

// suffix is that of the counter's key.
func (k counter) suffix(set *rule.LimitSet) string { return set.KeySuffixes[k.limit] + k.values }

// counters are those of an identity among limits: of one with "per" that of the values that are
// known, or else all that Redis has.
func (c *Client) counters(ctx context.Context, id *Identity, set *rule.LimitSet) (all []counter, err error) {
	for i := range set.Limits {
		if !set.IsPer(i) {
			all = append(all, counter{limit: i})
			continue
		}
		values, known, err := id.valuesOf(set, i)
		switch {
		case err != nil:
			return nil, err
		case known && values != "":
			all = append(all, counter{i, values})
		case !known:
			found, err := c.scan(ctx, c.key(id.Tag, set.KeySuffixes[i]))
			if err != nil {
				return nil, err
			}
			id.Scanned = true
			for _, values := range found {
				all = append(all, counter{i, values})
			}
		}
	}
	return all, nil
}

// scan finds what follows the beginning of keys.
func (c *Client) scan(ctx context.Context, begin string) (rests []string, err error) {
	err = c.eachKey(ctx, escapeGlob(begin)+"*", func(keys []string) error {
		for _, key := range keys {
			rests = append(rests, strings.TrimPrefix(key, begin))
		}
		return nil
	})
	slices.Sort(rests)
	if err != nil {
		return nil, c.options.explain(err)
	}
	return slices.Compact(rests), nil
}

// valuesOf are the values of a limit with "per"; "" if the limit does not apply. known is false if
// neither a request nor --per has any.
func (id *Identity) valuesOf(set *rule.LimitSet, limit int) (values string, known bool, err error) {
	if id.Values != nil {
		found, _ := set.ValuesOf(id.Values, limit)
		return string(found), true, nil
	}
	if id.Per == nil {
		return "", false, nil
	}
	all := perComponents(id.LimitSets())
	if len(id.Per) > len(all) {
		return "", false, fmt.Errorf("rule %q has %s in \"per\", %d given (want %s)", id.Rule.Name,
			console.Count(len(all), "value"), len(id.Per), wanted(all))
	}
	per := set.Limits[limit].Per
	var given []string
	for _, c := range valued(per) {
		at := slices.IndexFunc(all, func(other *config.Component) bool { return same(c, other) })
		if at >= len(id.Per) {
			return "", true, nil // it does not apply to these values
		}
		given = append(given, id.Per[at])
	}
	values, err = identityIn(per, given)
	return values, true, err
}

// identityIn is the identity that values make in a key, as keys hold it.
func identityIn(key []config.Component, values []string) (string, error) {
	t, err := tagger(&config.Rule{Name: "per", Key: key}, "")
	if err != nil {
		return "", err
	}
	t.makes = "part of an identity"
	tag, err := t.Tag(values)
	_, identity, _ := strings.Cut(string(tag), "|")
	return identity, err
}

// perComponents are the components of "per" in the order in which --per has their values: each once.
func perComponents(sets []*rule.LimitSet) (all []*config.Component) {
	for _, set := range sets {
		for i := range set.Limits {
			for _, c := range valued(set.Limits[i].Per) {
				known := func(other *config.Component) bool { return same(c, other) }
				if !slices.ContainsFunc(all, known) {
					all = append(all, c)
				}
			}
		}
	}
	return all
}
