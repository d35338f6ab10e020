package state

import (
	"fmt"
	"strings"

	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
	"github.com/sluiceproxy/sluice/plugin/text"
)

// Tagger makes the tags of many identities of one rule.
type Tagger struct {
	Rule *config.Rule
	// Tiers are the names of the rule's tiers, and Sets all its lists of limits.
	Tiers []string
	Sets  []*rule.LimitSet

	prefix  string
	set     *rule.Set
	matcher rule.Matcher
}

// NewTagger prepares a rule.
func NewTagger(cfg *config.Config, name string) (*Tagger, error) {
	some, err := Tagged(cfg, name, "", "")
	if err != nil {
		return nil, err
	}
	t := &Tagger{Rule: some.Rule, prefix: string(some.Tag)}
	for _, set := range some.Sets {
		t.Sets = append(t.Sets, set.Limits)
	}
	if some.Rule.Tiers != nil {
		for i := range some.Rule.Tiers.Values {
			t.Tiers = append(t.Tiers, some.Rule.Tiers.Values[i].Value)
		}
	}
	t.set, err = untiered(cfg, some.Rule)
	return t, err
}

// Tag is the tag of the identity that values make. It is good until the next call.
func (t *Tagger) Tag(values []string) ([]byte, error) {
	req, err := request(t.Rule, values)
	if err != nil {
		return nil, err
	}
	applied, _ := t.set.Apply(req, &t.matcher)
	if len(applied) == 0 {
		return nil, fmt.Errorf("these values make no identity of rule %q (want %s)", t.Rule.Name, wanted(t.Rule))
	}
	return applied[0].Tag, nil
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
			values = append(values, unescape(part))
		}
	}
	if tag, err := t.Tag(values); err != nil || string(tag) != t.prefix+identity {
		return nil
	}
	return values
}

// unescape undoes what keys escape.
func unescape(part string) string {
	var out strings.Builder
	for i := 0; i < len(part); i++ {
		if c, ok := text.Unescape(part, i); ok {
			out.WriteByte(c)
			i += 2
			continue
		}
		out.WriteByte(part[i])
	}
	return out.String()
}

// untiered compiles a rule for its tags alone: the tier need not be known.
func untiered(cfg *config.Config, r *config.Rule) (*rule.Set, error) {
	only := alone(r)
	only.HashSecret = cfg.HashSecret
	if r.Tiers != nil {
		only.Rules[0].Tiers, only.Rules[0].Limits = nil, anyLimits(r.Tiers)
	}
	return rule.Compile(only, nil)
}
