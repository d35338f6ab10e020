package live

import (
	"fmt"
	"strings"

	"github.com/sluiceproxy/sluice/cmd/sluice/explain"
	"github.com/sluiceproxy/sluice/cmd/sluice/shown"
	"github.com/sluiceproxy/sluice/plugin/config"
	"github.com/sluiceproxy/sluice/plugin/rule"
)

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

// NewTagger prepares a rule.
func NewTagger(cfg *config.Config, name string) (*Tagger, error) {
	t, err := newTagger(cfg, name)
	if err != nil {
		return nil, err
	}
	t.Any = &Identity{Rule: t.Rule}
	return t, t.Any.choose("", nil)
}

// newTagger prepares a rule for its tags alone, which neither its limits nor its tiers change.
func newTagger(cfg *config.Config, name string) (*Tagger, error) {
	r, err := find(cfg, name)
	if err != nil {
		return nil, err
	}
	return tagger(r, cfg.HashSecret)
}

func tagger(r *config.Rule, hashSecret string) (*Tagger, error) {
	only := explain.Probe(config.Rule{Name: r.Name, Key: r.Key})
	only.HashSecret = hashSecret
	set, err := rule.Compile(only, nil)
	makes := fmt.Sprintf("identity of rule %q", r.Name)
	return &Tagger{Rule: r, makes: makes, prefix: rule.TagPrefix(r.Name), set: set}, err
}

// Tag is the tag of the identity that values make. It is good until the next call.
func (t *Tagger) Tag(values []string) ([]byte, error) {
	_, tag, err := t.request(values)
	return tag, err
}

// request is a request that has the values, and its tag, which is good until the next call.
func (t *Tagger) request(values []string) (req *explain.Request, tag []byte, err error) {
	if req, err = request(t.Rule, values); err != nil {
		return nil, nil, err
	}
	applied, _ := t.set.Apply(req, &t.matcher)
	if len(applied) == 0 {
		return nil, nil, fmt.Errorf("these values make no %s (want %s)", t.makes, wanted(valued(t.Rule.Key)))
	}
	return req, applied[0].Tag, nil
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
	if tag, err := t.Tag(values); err != nil || string(tag) != t.prefix+identity {
		return nil
	}
	return values
}
