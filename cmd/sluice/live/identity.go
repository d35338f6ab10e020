package live

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceproxy/sluice/algo"
	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

// Identity is one identity of one rule.
type Identity struct {
	Rule *config.Rule
	Tag  []byte
	// Sets are the limits that may apply: one list, or that of each tier; an unlimited tier has none.
	Sets []*rule.LimitSet
	// Costs and Sizes: the units that a request takes of the limits of the only set, and what it brings
	// of their sizes; nil: 1 each, and none.
	Costs []int64
	Sizes []algo.Size
	// Values are those of the limits with "per", or Per is what --per says of them, in order; nil
	// both: they are looked for in Redis, and Scanned is set.
	Values  rule.Values
	Per     []string
	Scanned bool
	setting string // of its override; "": none
}

// Tiers are the names of its rule's tiers.
func (id *Identity) Tiers() []string {
	if id.Rule.Tiers == nil {
		return nil
	}
	return id.Rule.Tiers.Names()
}

// Applied is the identity of a request that a rule applies to. It keeps nothing of applied.
func Applied(c *config.Rule, applied *rule.Applied) *Identity {
	id := &Identity{
		Rule: c, Tag: slices.Clone(applied.Tag),
		Costs: slices.Clone(applied.Costs), Sizes: slices.Clone(applied.Sizes), Values: slices.Clone(applied.Values),
	}
	if applied.Limits != nil {
		id.Sets = []*rule.LimitSet{applied.Limits}
	}
	return id
}

// choose finds the limits: the tier's that is named, that the request has, or all.
func (id *Identity) choose(tier string, req *explain.Request) error {
	alone := *id.Rule // in a configuration of its own, where it applies to everything
	alone.Match, alone.Mode = config.Match{}, config.Enforce
	set, err := rule.Compile(&config.Config{Rules: []config.Rule{alone}}, nil)
	if err != nil {
		return err
	}
	tiers := id.Rule.Tiers
	id.Sets = nil
	if tiers == nil {
		if tier != "" {
			return fmt.Errorf("rule %q has no tiers: leave out --tier", id.Rule.Name)
		}
		id.Sets = set.LimitSets[:1]
		return nil
	}
	names, isSource := tiers.Names(), func(c config.Component) bool { return same(&c, &tiers.Source) }
	if tier == "" && req != nil && slices.ContainsFunc(id.Rule.Key, isSource) {
		var m rule.Matcher
		if applied, _, _ := set.Apply(req, &m); len(applied) == 1 {
			tier = explain.TierOf(tiers, applied[0].Limits)
		}
	}
	if tier == "" && tiers.Source.Source == config.FromConstant {
		if tier = tiers.Source.Value; !slices.Contains(names, tier) { // all requests have it, but for overrides
			tier = tiers.Default
		}
	}
	if tier != "" && !slices.Contains(names, tier) {
		return fmt.Errorf("rule %q has no tier %q (want one of %s)", id.Rule.Name, tier, shown.Quoted(names))
	}
	for _, name := range names {
		limits := set.Tier(set.Rules[0].ID, name)
		if (tier == "" || tier == name) && limits != nil && len(limits.Limits) > 0 {
			id.Sets = append(id.Sets, limits)
		}
	}
	return nil
}

// same reports whether two components read the same thing.
func same(a, b *config.Component) bool {
	return a.Source == b.Source && a.Name == b.Name && slices.Equal(a.Path, b.Path)
}

// Tagger makes the tags of many identities of one rule.
type Tagger struct {
	Rule *config.Rule
	// Any stands for any identity of the rule: all limits of the rule may apply to it.
	Any *Identity

	makes   string // what values make
	prefix  string
	set     *rule.Set
	matcher rule.Matcher
}

// NewTagger prepares the rule of a name, whatever its mode.
func NewTagger(cfg *config.Config, name string) (*Tagger, error) {
	var names []string
	for i := range cfg.Rules {
		switch r := &cfg.Rules[i]; {
		case r.Exempt:
		case r.Name == name:
			t, err := tagger(r, cfg.HashSecret)
			if err != nil {
				return nil, err
			}
			t.Any = &Identity{Rule: r}
			return t, t.Any.choose("", nil)
		default:
			names = append(names, r.Name)
		}
	}
	return nil, fmt.Errorf("no rule %q (want one of %s)", name, shown.Quoted(names))
}

// tagger prepares a rule for its tags alone, which neither its limits nor its tiers change.
func tagger(r *config.Rule, hashSecret string) (*Tagger, error) {
	only := explain.Probe(config.Rule{Name: r.Name, Key: r.Key})
	only.HashSecret = hashSecret
	set, err := rule.Compile(only, nil)
	makes := fmt.Sprintf("identity of rule %q", r.Name)
	return &Tagger{Rule: r, makes: makes, prefix: rule.TagPrefix(r.Name), set: set}, err
}

// Tag is the tag of the identity that values make, good until the next call, and a request that has them.
func (t *Tagger) Tag(values []string) (tag []byte, req *explain.Request, err error) {
	if req, err = request(t.Rule, values); err != nil {
		return nil, nil, err
	}
	applied, _, _ := t.set.Apply(req, &t.matcher)
	if len(applied) == 0 {
		return nil, nil, fmt.Errorf("these values make no %s (want %s)", t.makes, wanted(valued(t.Rule.Key)))
	}
	return applied[0].Tag, req, nil
}

// Identity is the identity as Redis' keys, logs and top show it, escaped or hashed; nil: the one that the values
// of the key make, in order; constants have none. tier chooses one of limits_by; empty: the one that the values
// choose, or all.
func (t *Tagger) Identity(tier string, shown *string, values []string) (id *Identity, err error) {
	id = &Identity{Rule: t.Rule}
	var req *explain.Request
	if shown != nil {
		id.Tag = t.TagOf(*shown)
	} else if id.Tag, req, err = t.Tag(values); err != nil {
		return nil, err
	}
	return id, id.choose(tier, req)
}

// TagOf is the tag of an identity as Redis' keys show it.
func (t *Tagger) TagOf(identity string) []byte { return []byte(t.prefix + shown.Identity(identity)) }

// Values are those that make an identity; nil if none are known to, as of one that is hashed.
func (t *Tagger) Values(identity string) (values []string) {
	parts := strings.Split(identity, "|")
	if len(parts) != len(t.Rule.Key) {
		return nil
	}
	for i, part := range parts {
		if t.Rule.Key[i].Source != config.FromConstant {
			values = append(values, shown.Unescape(part, 0))
		}
	}
	if tag, _, err := t.Tag(values); err != nil || string(tag) != t.prefix+identity {
		return nil
	}
	return values
}
